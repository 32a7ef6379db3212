"""Encoders, and pairs of encoder and decoder, by transformers: what they compute of padded rows. Needs no jax."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

LENGTH, DECODED, START, NEW = 9, 7, 2, 8
SEGMENTS = np.array([[1] * LENGTH, [1] * 6 + [0] * 3], np.int32)


def inputs(config: Any) -> dict[str, np.ndarray]:
    """Arrays as our batch names them; `pixels` of images."""
    random = np.random.default_rng(1)
    if hasattr(config, "image_size"):
        shape = (2, config.num_channels, config.image_size, config.image_size)
        return {"pixels": random.standard_normal(shape, np.float32)}
    ids = random.integers(2, config.vocab_size, (2, LENGTH)).astype(np.int32)
    if config.is_encoder_decoder:
        tokens = random.integers(2, config.vocab_size, (2, DECODED)).astype(np.int32)
        return {"source": ids, "source_segments": SEGMENTS, "tokens": tokens}
    found = {"tokens": ids, "segments": SEGMENTS}
    if not hasattr(config, "type_vocab_size"):
        return found
    return found | {"types": random.integers(0, config.type_vocab_size, (2, LENGTH)).astype(np.int32)}


def called(arrays: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """The arrays as their models call them."""
    alone = {"tokens": "input_ids", "segments": "attention_mask", "types": "token_type_ids", "pixels": "pixel_values"}
    pair = {"source": "input_ids", "source_segments": "attention_mask", "tokens": "decoder_input_ids"}
    names = pair if "source" in arrays else alone
    whole = {name: torch.from_numpy(x) for name, x in arrays.items()}
    return {names[name]: x if x.dtype == torch.float32 else x.long() for name, x in whole.items()}


def outputs(model: Any, gradients: Any) -> dict[str, np.ndarray]:
    """The inputs, logits, hidden.I and encoder.I (0 the embedding), the gradients of the mean cross-entropy of
    `targets` at real positions, and of a next sentence, class 0; and what a pair writes greedily.
    """
    arrays = inputs(model.config)
    out = model(**called(arrays), output_hidden_states=True)
    logits = scores(model, out)
    targets = torch.from_numpy(np.random.default_rng(2).integers(0, logits.shape[-1], logits.shape[:-1]))
    each = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    real = torch.from_numpy(arrays.get("segments", np.ones(targets.shape))) if logits.ndim == 3 else torch.ones(2)
    loss = (each * real.flatten()).sum() / real.sum()
    found = arrays | {"logits": logits, "targets": targets.int()}
    pairs = getattr(out, "seq_relationship_logits", getattr(out, "sop_logits", None))
    if pairs is not None:
        found["next_sentence"] = pairs
        loss = loss - torch.log_softmax(pairs, -1)[:, 0].mean()
    loss.backward()
    states = out.decoder_hidden_states if model.config.is_encoder_decoder else out.hidden_states
    found |= {f"hidden.{i}": state for i, state in enumerate(states)}
    if model.config.is_encoder_decoder:
        found |= {f"encoder.{i}": state for i, state in enumerate(out.encoder_hidden_states)}
        found["generated"] = written(model, arrays)
    found |= {f"grad.{name}": x for name, x in gradients(model).items()}
    return {name: x.detach().numpy() if isinstance(x, torch.Tensor) else x for name, x in found.items()}


def written(model: Any, arrays: dict[str, np.ndarray]) -> torch.Tensor:
    settings = model.generation_config
    settings.eos_token_id = settings.forced_eos_token_id = settings.forced_bos_token_id = None
    source = {name: x for name, x in called(arrays).items() if name != "decoder_input_ids"}
    how = {"decoder_start_token_id": START, "max_new_tokens": NEW, "do_sample": False, "num_beams": 1}
    return model.generate(**source, **how)[:, 1:].int()


def logits(model: Any) -> np.ndarray:
    with torch.no_grad():
        return scores(model, model(**called(inputs(model.config)))).numpy()


def scores(model: Any, out: Any) -> torch.Tensor:
    """Logits; of a bare model what it pools, or its states. A discriminator's one logit a token is that of the second
    of two classes, beside 0: the softmax over both is its sigmoid.
    """
    names = ("prediction_logits", "logits", "pooler_output", "last_hidden_state")
    found = next(value for name in names if (value := getattr(out, name, None)) is not None)
    if type(model).__name__ == "ElectraForPreTraining":
        return torch.stack([torch.zeros_like(found), found], -1)
    return found
