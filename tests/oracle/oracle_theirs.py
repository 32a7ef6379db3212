"""Tiny random models by transformers, and what they compute. Needs the extra `oracle`, and no jax."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import oracle_encoders_theirs as encoders
import torch
import transformers
from oracle_cases import Case
from safetensors.numpy import load_file

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
ROWS, LENGTH, PROMPT, NEW = 2, 12, 6, 10
BUFFERS = ("correction_bias", "final_logits_bias")


def make(case: Case, folder: Path, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> None:
    """A model with every parameter random, gains and biases too, saved as transformers saves it, in any type: values
    are exact in bfloat16.
    """
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(case.model_type, **case.fields)
    model = getattr(transformers, case.auto).from_config(config).float()
    if case.fields.get("tie_word_embeddings") is False and model.lm_head.weight is model.get_input_embeddings().weight:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())  # T5's config ties them all the same
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *moved_by_no_gradient(model)]:
            noise = torch.randn_like(parameter) * dict(case.louder).get(name.rpartition(".")[2], 1.0)
            is_gain = parameter.ndim == 1 and name.endswith("weight") and "gemma" not in case.model_type
            parameter.copy_((1.0 + 0.2 * noise if is_gain else 0.25 * noise).bfloat16().float())
    model.to(dtype).save_pretrained(folder)


def moved_by_no_gradient(model: Any) -> list[tuple[str, Any]]:
    """Buffers that a checkpoint holds: the balance of a mixture's experts, BART's bias of the logits."""
    return [(name, buffer) for name, buffer in model.named_buffers() if name.endswith(BUFFERS)]


def outputs(case: Case, folder: Path) -> dict[str, np.ndarray]:
    """tokens, logits, hidden.I (0 the embedding, the last after the final norm), gradients of the mean cross-entropy of
    the next token by their names in a checkpoint, grad.NAME, and what the model writes greedily after a prompt.
    """
    model = load(case, folder)
    if case.auto != "AutoModelForCausalLM":
        return encoders.outputs(model, gradients)
    tokens = torch.from_numpy(np.random.default_rng(1).integers(2, model.config.vocab_size, (ROWS, LENGTH)))
    out = model(tokens, output_hidden_states=True)
    loss = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    found = {"tokens": tokens.int().numpy(), "logits": out.logits.detach().numpy()}
    found |= {f"hidden.{i}": state.detach().numpy() for i, state in enumerate(out.hidden_states)}
    found |= {f"grad.{name}": value for name, value in gradients(model).items()}
    model = load(case, folder)
    model.generation_config.eos_token_id = None  # no end: as many tokens as ours
    written = model.generate(tokens[:, :PROMPT], max_new_tokens=NEW, do_sample=False)
    return found | {"generated": written[:, PROMPT:].int().numpy()}


def logits(case: Case, folder: Path, tokens: np.ndarray) -> np.ndarray:
    if case.auto != "AutoModelForCausalLM":
        return encoders.logits(load(case, folder))
    with torch.no_grad():
        return load(case, folder)(torch.from_numpy(tokens).long()).logits.numpy()


def config(case: Case) -> dict[str, Any]:
    """All fields of a config, as a file has them."""
    return json.loads(transformers.AutoConfig.for_model(case.model_type, **case.fields).to_json_string(use_diff=False))


def of_every_config() -> set[str]:
    """Fields of transformers' own."""
    return set(json.loads(transformers.PreTrainedConfig().to_json_string(use_diff=False)))


def load(case: Case, folder: Path) -> Any:
    auto = getattr(transformers, case.auto)
    return auto.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def gradients(model: Any) -> dict[str, np.ndarray]:
    """By the names of a checkpoint, which are not always those of the model: saved in the place of the weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            parameter.copy_(gradient)
        for _, buffer in moved_by_no_gradient(model):
            buffer.zero_()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder) / "model.safetensors")
