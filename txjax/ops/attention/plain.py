"""Attention as it is written: every score, every weight. The oracle of all other forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.dropout import dropout as drop
from txjax.ops.masks import Bias, Mask

HIDDEN = -1e30  # what a hidden score is set to: far below any score, and finite, so that no NaN can arise


def scores(
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    bias_BNTS: Float[Array, "#B #N T S"] | None,
    softcap: float | None,
) -> Float[Array, "B N T S"]:
    """cap(q k^T) + bias in float32; query head n reads key head n K // N."""
    B, N, T, H = q_BNTH.shape
    K, S = k_BKSH.shape[1:3]
    q_BKGTH = q_BNTH.reshape(B, K, N // K, T, H)
    s = jnp.einsum("BKGTH,BKSH->BKGTS", q_BKGTH, k_BKSH, preferred_element_type=jnp.float32).reshape(B, N, T, S)
    if softcap is not None:
        s = softcap * jnp.tanh(s / softcap)
    return s if bias_BNTS is None else s + bias_BNTS


def masked_softmax(s: Float[Array, "*B S"], visible: Bool[Array, "*#B S"] | None) -> Float[Array, "*B S"]:
    """exp(s) / sum exp(s) over the visible entries; a row with none is zero, and so is its gradient."""
    if visible is None:
        return jax.nn.softmax(s, axis=-1)
    s = jnp.where(visible, s, HIDDEN)
    e = jnp.where(visible, jnp.exp(s - jax.lax.stop_gradient(s.max(-1, keepdims=True))), 0.0)
    total = e.sum(-1, keepdims=True)
    return e / jnp.where(total == 0, 1.0, total)


def mix(weights_BNTS: Float[Array, "B N T S"], v_BKSH: Float[Array, "B K S H"]) -> Float[Array, "B N T H"]:
    """weights v, each value head serving N/K query heads."""
    B, N, T, S = weights_BNTS.shape
    K, H = v_BKSH.shape[1], v_BKSH.shape[3]
    w_BKGTS = weights_BNTS.reshape(B, K, N // K, T, S).astype(v_BKSH.dtype)
    return jnp.einsum("BKGTS,BKSH->BKGTH", w_BKGTS, v_BKSH).reshape(B, N, T, H)


def plain_attention(
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    v_BKSH: Float[Array, "B K S H"],
    *,
    query_BT: Int[Array, "#B T"],
    mask: Mask | None,
    bias: Bias | None,
    softcap: float | None,
    dropout: tuple[Array, float | Array] | None,
    block_size: int,
) -> tuple[Float[Array, "B N T H"], Float[Array, "B N T S"]]:
    """See txjax.ops.attention; q comes scaled, and memory grows with T S."""
    key_S = jnp.arange(k_BKSH.shape[2])
    s_BNTS = scores(q_BNTH, k_BKSH, None if bias is None else bias(query_BT, key_S), softcap)
    weights_BNTS = masked_softmax(s_BNTS, None if mask is None else mask(query_BT, key_S))
    kept_BNTS = weights_BNTS if dropout is None else drop(weights_BNTS, *dropout)
    return mix(kept_BNTS, v_BKSH), weights_BNTS
