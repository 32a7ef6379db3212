"""What the forms of attention share: projections to heads and back, and the cache of keys and values."""

from __future__ import annotations

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.config.model import Model
from txjax.nn.context import Context, sow
from txjax.nn.linear import Linear
from txjax.nn.norm import Norm
from txjax.nn.parameters import declare
from txjax.ops.attention import attention
from txjax.schema import ConfigError, require


class KeyValues(NamedTuple):
    """The cache of attention: keys (rotated) and values, (B, K, S, H) a layer."""

    keys: Array
    values: Array


def empty_cache(model: Model, batch: int, length: int) -> KeyValues:
    """With room for `length` tokens in each of `batch` rows."""
    shape = (batch, model.num_kv_heads, length, model.head_dim)
    return KeyValues(jnp.zeros(shape, model.dtype), jnp.zeros(shape, model.dtype))


def check_heads(model: Model) -> None:
    """Refuse heads that do not divide the width: raise ConfigError."""
    heads = model.attention
    if heads.head_dim is None and model.width % heads.num_heads:
        divisors = [n for n in range(1, model.width + 1) if model.width % n == 0]
        near = min(divisors, key=lambda n: (abs(n - heads.num_heads), n))
        raise ConfigError(
            f"attention.num_heads must divide width={model.width}, got {heads.num_heads}: "
            f"try {near}, or set attention.head_dim"
        )


def check_softmax(model: Model) -> None:
    """Refuse what the implementation of softmax attention cannot do: raise ConfigError."""
    heads = model.attention
    fused = heads.implementation in ("xla", "cudnn")
    require(
        not fused or heads.softcap is None,
        f"attention.softcap needs attention.implementation plain or blockwise, got {heads.implementation}",
    )
    require(
        not fused or not heads.sinks,
        f"attention.sinks needs attention.implementation recomputed, plain or blockwise, got {heads.implementation}",
    )
    require(
        not fused or model.dropout == 0 or "attention" not in model.dropout_sites,
        f"attention.implementation={heads.implementation} drops no attention weights: use plain or blockwise, or "
        "take attention out of dropout_sites",
    )


def split_heads(model: Model, name: str, x_BTD: Array, count: int, axis: str) -> Float[Array, "B N T H"]:
    """The projection `name` of x to heads, heads before tokens, as the score products want them; inside a module's
    compact call.
    """
    heads = model.attention
    gain = model.head_dim**-0.5 if name == "query" and heads.scale == "folded" else 1.0
    shape, axes = (model.width, count, model.head_dim), ("embed", axis, "head_dim")
    project = Linear(model, shape, axes, gain=gain, bias=heads.qkv_bias, name=name)
    return jnp.swapaxes(project(x_BTD), 1, 2)


def norm_heads(
    model: Model, name: str, x_BNTH: Float[Array, "B N T H"], axis: str, context: Context
) -> Float[Array, "B N T H"]:
    """Queries or keys, normalised as attention.qk_norm says; inside a module's compact call."""
    if model.attention.qk_norm == "none":
        return x_BNTH
    if model.attention.qk_norm == "head":
        return Norm(model.norm, ("head_dim",), name=name)(x_BNTH, context)
    return jnp.swapaxes(Norm(model.norm, (axis, "head_dim"), name=name)(jnp.swapaxes(x_BNTH, 1, 2), context), 1, 2)


def edited(
    module: nn.Module, context: Context, layer: Array | int, y_BNTW: Float[Array, "B N T W"], part: str = "self"
) -> Float[Array, "B N T W"]:
    """What the heads found, as a probe would have it (Knobs.heads); kept for whoever asked."""
    if edit := (context.knobs.heads or {}).get(part):
        gate_BN11 = jnp.asarray(edit.gates, y_BNTW.dtype)[layer][..., None, None]
        y_BNTW = gate_BN11 * y_BNTW
        if edit.instead is not None:
            y_BNTW += (1 - gate_BN11) * jnp.asarray(edit.instead, y_BNTW.dtype)[layer]
    sow(module, context, "head_outputs", y_BNTW)
    return y_BNTW


def join_heads(model: Model, y_BNTW: Float[Array, "B N T W"]) -> Float[Array, "B T D"]:
    """What the heads found, projected onto the residual stream by `out`; inside a module's compact call."""
    heads = model.attention
    shape, axes = (heads.num_heads, y_BNTW.shape[-1], model.width), ("heads", "head_dim", "embed")
    out = Linear(model, shape, axes, contract=2, role="residual", bias=heads.output_bias, name="out")
    return out(jnp.swapaxes(y_BNTW, 1, 2))


def attend(
    module: nn.Module,
    model: Model,
    context: Context,
    layer: Array | int,
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    v_BKSW: Float[Array, "B K S W"],
    **how: Any,
) -> Float[Array, "B N T W"]:
    """Self-attention as the model has it; inside a module's compact call. how: mask, bias, and where queries and keys
    are: see txjax.ops.attention.
    """
    heads = model.attention
    y_BNTW, weights = attention(
        q_BNTH,
        k_BKSH.astype(q_BNTH.dtype),
        v_BKSW.astype(q_BNTH.dtype),
        scale=context.knobs.scale,
        softcap=heads.softcap,
        # at 0 a sink is like a key whose score is 0, as most scores nearly are at first
        sinks_N=declare(module, "sinks", (heads.num_heads,), ("heads",)) if heads.sinks else None,
        dropout=context.dropout_of("attention", layer) if "attention" in model.dropout_sites else None,
        implementation="plain" if "attention_weights" in context.capture else heads.implementation,
        block_size=heads.block_size,
        **how,
    )
    sow(module, context, "attention_weights", weights)
    return y_BNTW


def write(
    cache_LBKSH: Float[Array, "L B K S H"],
    new_BKTH: Float[Array, "B K T H"],
    layer: Array | int,
    offset_B: Int[Array, " B"] | None,
) -> Float[Array, "L B K S H"]:
    """The cache with T new entries in a layer, from slot 0 or from each row's offset on.

    Whoever calls has checked that they fit: what lies past the end is dropped here without a word.
    """
    new_BKTH = new_BKTH.astype(cache_LBKSH.dtype)
    if offset_B is None:
        return jax.lax.dynamic_update_slice(cache_LBKSH, new_BKTH[None], (layer, 0, 0, 0, 0))
    row_B1 = jnp.arange(offset_B.shape[0])[:, None]
    slot_BT = offset_B[:, None] + jnp.arange(new_BKTH.shape[2])
    return cache_LBKSH.at[layer, row_B1, :, slot_BT].set(jnp.swapaxes(new_BKTH, 1, 2))


def held(last_B: Int[Array, " B"], slots: int) -> Int[Array, "B S"]:
    """Positions of the tokens in a ring, where position p lies in slot p mod `slots`, once position last_B is the
    newest; negative where a slot has none yet.
    """
    return last_B[:, None] - (last_B[:, None] - jnp.arange(slots)) % slots


def newest(x_BKTH: Float[Array, "B K T H"], segments_BT: Int[Array, "B T"] | None, slots: int) -> Array:
    """Of prompts longer than a ring, what it keeps: each row's last `slots` real tokens, slot by slot."""
    T = x_BKTH.shape[2]
    if slots >= T:
        return x_BKTH
    last_B = jnp.full(1, T - 1) if segments_BT is None else (segments_BT > 0).sum(1) - 1
    token_BS = jnp.maximum(held(last_B, slots), 0)
    return jnp.take_along_axis(x_BKTH, token_BS[:, None, :, None], axis=2)
