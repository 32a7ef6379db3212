"""Texts as vectors: what an encoder makes of a whole text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.config import Model as ModelConfig
from txjax.models import build
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import Pool, pool

STEP = 16  # rows are padded to a multiple of it, so that few programs are compiled


def sentence_vectors(
    model: ModelConfig, params: Any, rows: Sequence[Sequence[int]], *, how: Pool = "mean", batch_size: int = 32
) -> Float[np.ndarray, "M D"]:
    """The last states of each row of ids, pooled over its tokens (see txjax.nn.heads.pooler.pool) and divided by their
    Euclidean length, so that a product of two vectors is the cosine of their angle. Whatever head the model has is left
    out. No row may be empty.
    """
    encoder = build(replace(model, head=NoHead()))

    @jax.jit
    def vectors(params: Any, tokens_BT: Int[Array, "B T"], segments_BT: Int[Array, "B T"]) -> Float[Array, "B D"]:
        states_BTD = encoder.apply(params, Batch(tokens=tokens_BT, segments=segments_BT)).hidden
        v_BD = pool(states_BTD.astype(jnp.float32), segments_BT, how)[:, 0]
        return v_BD / jnp.maximum(jnp.linalg.norm(v_BD, axis=-1, keepdims=True), 1e-12)

    found = np.zeros((len(rows), model.width), np.float32)
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(rows), batch_size):
        chosen = order[start : start + batch_size]
        width = -(-max(len(rows[i]) for i in chosen) // STEP) * STEP
        width = min(width, model.max_length or width)
        tokens, segments = np.zeros((2, batch_size, width), np.int32)
        for place, i in enumerate(chosen):
            tokens[place, : len(rows[i])], segments[place, : len(rows[i])] = rows[i], 1
        found[chosen] = np.asarray(vectors(params, tokens, segments))[: len(chosen)]
    return found
