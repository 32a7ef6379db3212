"""The simple recurrent network."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import Cell, run, wide


def rnn_gate(x_H: Float[Array, "... H"], p_H: Float[Array, "... H"]) -> Float[Array, "... H"]:
    """x + p, for the projected input x, bias included, and p = h w."""
    return wide(x_H) + p_H


def rnn_step(h_BH: Float[Array, "B H"], gate_BH: Float[Array, "B H"]) -> Float[Array, "B H"]:
    """h' = tanh(x + h w). Elman 1990."""
    return jnp.tanh(gate_BH)


CELL = Cell(rnn_gate, rnn_step, hidden=lambda h_BH: h_BH)


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
    return run(CELL, x_BTH, initial_BH, w_HH, None, segments_BT, unroll)
