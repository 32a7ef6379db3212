"""One head of attention with an additive or a plain score."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.ops.attention.plain import masked_softmax
from txjax.ops.masks import Mask


def alignment(
    query_BTD: Float[Array, "B T D"],
    key_BSD: Float[Array, "B S D"],
    value_BSE: Float[Array, "B S E"],
    towards_D: Float[Array, " D"] | None,
    *,
    mask: Mask | None,
) -> tuple[Float[Array, "B T E"], Float[Array, "B T S"]]:
    """sum_s w_s value_s, w = softmax_s(score), over the keys that the mask allows.

    score: towards . tanh(query + key), or query . key where `towards` is None: Bahdanau et al. 2015; Luong et al. 2015.
    Memory of the first grows with T S D. Returns the mixed values, and the weights in float32.
    """
    if towards_D is None:
        s_BTS = jnp.einsum("BTD,BSD->BTS", query_BTD, key_BSD, preferred_element_type=jnp.float32)
    else:
        wide_BTSD = jnp.tanh(query_BTD[:, :, None] + key_BSD[:, None])
        s_BTS = jnp.einsum(
            "BTSD,D->BTS", wide_BTSD, towards_D.astype(wide_BTSD.dtype), preferred_element_type=jnp.float32
        )
    T, S = s_BTS.shape[1:]
    visible = None if mask is None else mask(jnp.arange(T)[None], jnp.arange(S))[:, 0]
    w_BTS = masked_softmax(s_BTS, visible)
    return jnp.einsum("BTS,BSE->BTE", w_BTS.astype(value_BSE.dtype), value_BSE), w_BTS
