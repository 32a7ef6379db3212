"""A gated recurrent unit that looks at a memory before every step."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from txjax.ops.attention import alignment
from txjax.ops.linear import linear
from txjax.ops.masks import Mask
from txjax.ops.recurrence.gru import gru_gates, gru_step
from txjax.ops.recurrence.sequence import wide


def gru_search(
    x_BT3H: Float[Array, "B T 3 H"],
    initial_BH: Float[Array, "B H"],
    w_H4H: Float[Array, "H 4 H"],
    b_H: Float[Array, " H"],
    found_D3H: Float[Array, "D 3 H"],
    key_BSH: Float[Array, "B S H"],
    value_BSD: Float[Array, "B S D"],
    towards_H: Float[Array, " H"],
    *,
    mask: Mask | None,
    real_BT: Bool[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T H"], Float[Array, "B T D"], Float[Array, "B T S"], Float[Array, "B H"]]:
    """h_t = gru_step(h_(t-1), x_t + c_t C), c_t = sum_s a_ts value_s, a_t = softmax_s(v . tanh(h_(t-1) W + key_s)).

    w_H4H: of the gates r, z and n, and W; b_H: inside n; found_D3H: C; towards_H: v. real_BT: where it is false the
    state stays. Returns the states, what was found, its weights, and the last state. Bahdanau et al. 2015, section
    A.1.2 and A.2.2, with the reset gate where `gru_step` has it.
    """

    def body(h_BH: Array, now: tuple[Array, Array | None]) -> tuple[Array, tuple[Array, Array, Array]]:
        x_B3H, real_B = now
        p_B4H = linear(h_BH.astype(x_B3H.dtype), w_H4H)
        query_B1H = p_B4H[:, None, 3]
        c_B1D, a_B1S = alignment(query_B1H, key_BSH, value_BSD, towards_H, mask=mask)
        product_B3H = wide(p_B4H[:, :3]).at[:, 2].add(b_H)
        after_BH = gru_step(h_BH, gru_gates(wide(x_B3H) + wide(linear(c_B1D[:, 0], found_D3H)), product_B3H))
        if real_B is not None:
            after_BH = jnp.where(real_B[:, None], after_BH, h_BH)
        return after_BH, (after_BH, c_B1D[:, 0], a_B1S[:, 0])

    steps = jnp.swapaxes(x_BT3H, 0, 1), None if real_BT is None else real_BT.T
    last_BH, (h_TBH, c_TBD, a_TBS) = lax.scan(body, wide(initial_BH), steps)
    return jnp.swapaxes(h_TBH, 0, 1), jnp.swapaxes(c_TBD, 0, 1), jnp.swapaxes(a_TBS, 0, 1), last_BH
