"""What the forms of attention share: projections to heads and back, and the cache of keys and values."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.linear import Linear


class KeyValues(NamedTuple):
    """The cache of attention: keys (rotated) and values, (B, K, S, H) a layer."""

    keys: Array
    values: Array


def empty_cache(model: Model, batch: int, length: int) -> KeyValues:
    """With room for `length` tokens in each of `batch` rows."""
    shape = (batch, model.num_kv_heads, length, model.head_dim)
    return KeyValues(jnp.zeros(shape, model.dtype), jnp.zeros(shape, model.dtype))


def split_heads(model: Model, name: str, x_BTD: Array, count: int, axis: str) -> Float[Array, "B N T H"]:
    """The projection `name` of x to heads, heads before tokens, as the score products want them; inside a module's
    compact call.
    """
    heads = model.attention
    gain = model.head_dim**-0.5 if name == "query" and heads.scale == "folded" else 1.0
    shape, axes = (model.width, count, model.head_dim), ("embed", axis, "head_dim")
    project = Linear(model, shape, axes, gain=gain, bias=heads.qkv_bias, name=name)
    return jnp.swapaxes(project(x_BTD), 1, 2)


def join_heads(model: Model, y_BNTH: Float[Array, "B N T H"]) -> Float[Array, "B T D"]:
    """What the heads found, projected onto the residual stream by `out`; inside a module's compact call."""
    heads = model.attention
    shape, axes = (heads.num_heads, model.head_dim, model.width), ("heads", "head_dim", "embed")
    out = Linear(model, shape, axes, contract=2, role="residual", bias=heads.output_bias, name="out")
    return out(jnp.swapaxes(y_BNTH, 1, 2))
