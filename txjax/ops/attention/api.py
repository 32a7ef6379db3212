"""The one signature behind which every implementation of attention stands."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.attention.blockwise import blockwise_attention
from txjax.ops.attention.fused import cudnn_attention, xla_attention
from txjax.ops.attention.plain import plain_attention
from txjax.ops.attention.recomputed import recomputed_attention
from txjax.ops.masks import Bias, Filled, Mask, as_bias, as_mask

IMPLEMENTATIONS: dict[str, Callable[..., tuple[Array, Array | None]]] = {
    "plain": plain_attention,
    "recomputed": recomputed_attention,
    "xla": xla_attention,
    "cudnn": cudnn_attention,
    "blockwise": blockwise_attention,
}


def attention(
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    v_BKSW: Float[Array, "B K S W"],
    *,
    scale: float | Float[Array, ""],
    mask: Mask | Bool[Array, "#B #N T S"] | None = None,
    bias: Bias | Float[Array, "#N T S"] | Float[Array, "#B #N T S"] | None = None,
    softcap: float | None = None,
    sinks_N: Float[Array, " N"] | None = None,
    offset: int | Int[Array, "..."] | None = None,
    key_BS: Int[Array, "#B S"] | None = None,
    dropout: tuple[Array, float | Array] | None = None,
    implementation: str = "plain",
    block_size: int = 128,
) -> tuple[Float[Array, "B N T W"], Float[Array, "B N T S"] | None]:
    """softmax(cap(scale q k^T) + bias) v, over the keys that the mask allows; cap(s) = softcap tanh(s / softcap).

    Values may be of another width than queries and keys, but for xla and cudnn.
    scale: 1/sqrt(H) keeps the variance of the scores at 1; 1.0 leaves it at H. May be traced.
    mask: which queries may see which keys, True = may. A query that sees none yields zeros, with no gradient. The rows
        of a mask or bias that is an array are this call's queries.
    sinks_N: a score for each head that counts in the softmax like a key's and has no value, so that a row may sum to
        less than 1. Not with xla and cudnn.
    offset: index of the first query among the keys, () or (B,); None: the queries are the last T of the keys.
    key_BS: index of each key, for a cache that keeps them in another order; negative: there is none. None: 0 .. S-1.
    dropout: key and rate, on the weights.
    Each of the K key heads serves N/K neighbouring query heads.
    Returns the mixed values and the weights, (B, N, T, S) in float32, whose rows sum to 1, or to 0 where nothing is
    visible; implementations other than plain hold no weights and return None for them.
    Raises ValueError where heads or shapes do not fit, or an implementation cannot serve.

    Vaswani et al. 2017, section 3.2.1; grouped heads: Ainslie et al. 2023; softcap: Gemma 2, 2024; sinks: gpt-oss's
    model card, OpenAI 2025, with the score fixed at 0: Miller 2023; that heads otherwise put on the first tokens what
    they have no use for: Xiao et al. 2024.
    """
    B, N, T, H = q_BNTH.shape
    K, S = k_BKSH.shape[1:3]
    if N % K or k_BKSH.shape != (B, K, S, H) or v_BKSW.shape[:3] != (B, K, S):
        raise ValueError(f"queries {q_BNTH.shape} do not fit keys {k_BKSH.shape} and values {v_BKSW.shape}")
    if implementation not in IMPLEMENTATIONS:
        raise ValueError(f"implementation must be one of {', '.join(IMPLEMENTATIONS)}, got {implementation!r}")
    if implementation == "recomputed" and offset is not None:
        implementation = "plain"  # a cached pass: which keys can be skipped is not known, and no backward pass follows
    first_B = jnp.atleast_1d(jnp.asarray(S - T if offset is None else offset))
    query_BT = first_B[:, None] + jnp.arange(T)
    mask = as_mask(mask, first_B[0])
    if key_BS is not None:
        mask = Filled() if mask is None else mask & Filled()
    scaled = q_BNTH if isinstance(scale, float) and scale == 1.0 else q_BNTH * jnp.asarray(scale, q_BNTH.dtype)
    return IMPLEMENTATIONS[implementation](
        scaled,
        k_BKSH,
        v_BKSW,
        query_BT=query_BT,
        key_S=jnp.arange(S) if key_BS is None else key_BS,
        mask=mask,
        bias=as_bias(bias, first_B[0]),
        softcap=softcap,
        sinks_N=sinks_N,
        dropout=dropout,
        block_size=block_size,
    )
