"""The simple recurrent network."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import product, run


def rnn_step(h_BH: Float[Array, "B H"], x_BH: Float[Array, "B H"], w_HH: Float[Array, "H H"]) -> Float[Array, "B H"]:
    """h' = tanh(x + h w), for x the projected input, bias included. Elman 1990."""
    return jnp.tanh(x_BH.astype(jnp.float32) + product(h_BH, w_HH, x_BH))


def rnn(
    x_BTH: Float[Array, "B T H"],
    initial_BH: Float[Array, "B H"],
    w_HH: Float[Array, "H H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], Float[Array, "B H"]]:
    """`rnn_step` along a sequence: the hidden states, and the last.

    segments_BT: numbers of the documents packed into a row, 0 on padding; see sequence.run.
    unroll: steps that are laid out in one round of the loop; values do not depend on it.
    """

    def step(h_BH: Array, x_BH: Array) -> Array:
        return rnn_step(h_BH, x_BH, w_HH)

    return run(step, lambda h_BH: h_BH, x_BTH, initial_BH, segments_BT, unroll)
