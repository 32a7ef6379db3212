"""Attention as it is written: every score, every weight. The oracle of all other forms."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.dropout import dropout as drop
from txjax.ops.masks import Bias, Keys, Mask

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
    if T == 1:  # of a step of decoding a CPU reads the keys as they lie, if they are the left side
        s = jnp.einsum("BKSH,BKGTH->BKSGT", k_BKSH, q_BKGTH, preferred_element_type=jnp.float32)
        s = jnp.moveaxis(s, 2, 4).reshape(B, N, T, S)
    else:
        s = jnp.einsum("BKGTH,BKSH->BKGTS", q_BKGTH, k_BKSH, preferred_element_type=jnp.float32).reshape(B, N, T, S)
    if softcap is not None:
        s = softcap * jnp.tanh(s / softcap)
    return s if bias_BNTS is None else s + bias_BNTS


def masked_softmax(
    s: Float[Array, "*B S"], visible: Bool[Array, "*#B S"] | None, sink: Float[Array, "*#B 1"] | None = None
) -> Float[Array, "*B S"]:
    """exp(s) / (sum exp(s) + exp(sink)) over the visible entries, without a sink that term left out; a row with none
    is zero, and so is its gradient.
    """
    if visible is None and sink is None:
        return jax.nn.softmax(s, axis=-1)
    s = s if visible is None else jnp.where(visible, s, HIDDEN)
    top = s.max(-1, keepdims=True)
    top = jax.lax.stop_gradient(top if sink is None else jnp.maximum(top, sink))
    e = jnp.exp(s - top)
    e = e if visible is None else jnp.where(visible, e, 0.0)
    total = e.sum(-1, keepdims=True)
    total = total if sink is None else total + jnp.exp(sink - top)
    return e / jnp.where(total == 0, 1.0, total)


def mix(weights_BNTS: Float[Array, "B N T S"], v_BKSW: Float[Array, "B K S W"]) -> Float[Array, "B N T W"]:
    """weights v, each value head serving N/K query heads."""
    B, N, T, S = weights_BNTS.shape
    K, W = v_BKSW.shape[1], v_BKSW.shape[3]
    w_BKGTS = weights_BNTS.reshape(B, K, N // K, T, S).astype(v_BKSW.dtype)
    return jnp.einsum("BKGTS,BKSW->BKGTW", w_BKGTS, v_BKSW).reshape(B, N, T, W)


def plain_attention(
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    v_BKSW: Float[Array, "B K S W"],
    *,
    query_BT: Int[Array, "#B T"],
    key_S: Keys,
    mask: Mask | None,
    bias: Bias | None,
    softcap: float | None,
    sinks_N: Float[Array, " N"] | None,
    dropout: tuple[Array, float | Array] | None,
    block_size: int,
) -> tuple[Float[Array, "B N T W"], Float[Array, "B N T S"]]:
    """See txjax.ops.attention; q comes scaled, and memory grows with T S."""
    s_BNTS = scores(q_BNTH, k_BKSH, None if bias is None else bias(query_BT, key_S), softcap)
    sink_N11 = None if sinks_N is None else sinks_N[:, None, None]
    weights_BNTS = masked_softmax(s_BNTS, None if mask is None else mask(query_BT, key_S), sink_N11)
    kept_BNTS = weights_BNTS if dropout is None else drop(weights_BNTS, *dropout)
    return mix(kept_BNTS, v_BKSW), weights_BNTS
