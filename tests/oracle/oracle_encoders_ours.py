"""What our encoders and pairs compute of the same padded rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.batch import Batch

START = 2  # the token that a decoder begins with
FIELDS = ("tokens", "segments", "types", "source", "source_segments")
BUFFER = "final_logits_bias"  # no gradient moves it there
CAPTURED = ("embedded", "residual", "next_sentence")


def batch_of(model: Any, theirs: dict[str, np.ndarray]) -> Batch:
    if "pixels" not in theirs:
        return Batch(**{name: jnp.asarray(theirs[name]) for name in FIELDS if name in theirs})
    B, C, side, _ = theirs["pixels"].shape
    patch = model.embedding.side
    grid = theirs["pixels"].reshape(B, C, side // patch, patch, side // patch, patch).transpose(0, 2, 4, 1, 3, 5)
    return Batch(tokens=jnp.asarray(grid.reshape(B, model.context, -1)))


def loss(model: Any, params: Any, theirs: dict[str, np.ndarray]) -> tuple[jax.Array, Any]:
    """Mean cross-entropy of theirs' targets at real positions, and where there is one of a next sentence, class 0."""
    batch = batch_of(model.config, theirs)
    out = model.apply(params, batch, capture=CAPTURED)
    targets = theirs["targets"].reshape(out.logits.shape[:-1])
    real = theirs["segments"] if "segments" in theirs and targets.shape[1] > 1 else np.ones(targets.shape)
    rates = jnp.take_along_axis(jax.nn.log_softmax(out.logits), targets[..., None], axis=-1)[..., 0]
    total = -(real * rates).sum() / real.sum()
    if "next_sentence" in theirs:
        (scores_B2,) = out.captured["next_sentence"]["next_sentence"]
        total -= jax.nn.log_softmax(scores_B2)[:, 0].mean()
    return total, out


def differences(
    model: Any, out: Any, theirs: dict[str, np.ndarray], residuals: Any
) -> tuple[dict[str, Any], list[tuple[Any, Any]]]:
    """Pairs, ours and theirs: of logits and of hidden states at real positions."""
    logits = {"logits": (out.logits.reshape(theirs["logits"].shape), theirs["logits"])}
    if "segments" in theirs and theirs["logits"].ndim == 3:
        seen = theirs["segments"][..., None] > 0
        logits = {"logits": tuple(np.where(seen, x, 0) for x in logits["logits"])}
    if "next_sentence" in theirs:
        logits["next_sentence"] = (out.captured["next_sentence"]["next_sentence"][0], theirs["next_sentence"])
    config, real = model.config, theirs.get("segments", np.ones((2, 1)))
    if "source" in theirs:
        last = [out.hidden] if config.norm_placement == "pre" else []  # theirs is normalised
        encoder, memory = out.captured["encoder"], theirs["source_segments"]
        states = pairs(config.encoder_model, encoder, theirs, "encoder", memory, residuals, without_last=bool(last))
        return logits, states + pairs(config, out.captured, theirs, "hidden", real, residuals, last)
    normalised = config.norm_placement == "pre" and config.embedding.reads == "ids"  # ViT's last is not
    last = [out.hidden] if normalised else []
    return logits, pairs(config, out.captured, theirs, "hidden", real, residuals, last)


def pairs(
    model: Any,
    captured: Any,
    theirs: Any,
    name: str,
    real: Any,
    residuals: Any,
    last: Any = (),
    without_last: bool = False,
) -> list[tuple[Any, Any]]:
    ours = [captured["embedded"][0], *residuals(model, captured)]
    if last or without_last:
        ours = [*ours[:-1], *last]
    count = sum(key.startswith(f"{name}.") for key in theirs)
    assert count == len(ours) + without_last, (count, len(ours))
    seen = np.asarray(real)[..., None] > 0
    return [(np.where(seen, x, 0), np.where(seen, theirs[f"{name}.{i}"], 0)) for i, x in enumerate(ours)]


def greedy(model: Any, params: Any, theirs: dict[str, np.ndarray]) -> np.ndarray:
    """What a pair writes with its cache, the likeliest token each time."""
    B, count = theirs["generated"].shape
    source = {name: jnp.asarray(theirs[name]) for name in ("source", "source_segments")}
    start = Batch(tokens=jnp.full((B, 1), START, jnp.int32), **source)

    @jax.jit
    def write(params: Any) -> jax.Array:
        def one(carry: Any, _: None) -> tuple[Any, jax.Array]:
            logits_BV, cache = carry
            token_B = jnp.argmax(logits_BV, axis=-1).astype(jnp.int32)
            return model.step(params, token_B, cache), token_B

        return jax.lax.scan(one, model.prefill(params, start, 1 + count), None, length=count)[1].T

    return np.asarray(write(params))
