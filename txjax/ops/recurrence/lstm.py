"""Long short-term memory."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import Cell, run, split, wide


class LSTMState(NamedTuple):
    """What is shown of the cell, and what it keeps."""

    hidden_BH: Float[Array, "B H"]
    cell_BH: Float[Array, "B H"]


def lstm_gates(x_4H: Float[Array, "... 4 H"], p_4H: Float[Array, "... 4 H"]) -> Float[Array, "... 4 H"]:
    """x + p, for the projected inputs x of i, f, g and o, biases included, and p = h w."""
    return wide(x_4H) + p_4H


def lstm_step(state: LSTMState, gates_B4H: Float[Array, "B 4 H"]) -> LSTMState:
    """c' = f c + i g and h' = o tanh(c'), where i, f, o are the sigmoid and g is the tanh of their gates. Hochreiter
    and Schmidhuber 1997; f: Gers et al. 2000.
    """
    write_BH, keep_BH, new_BH, show_BH = split(gates_B4H)
    cell_BH = jax.nn.sigmoid(keep_BH) * state.cell_BH + jax.nn.sigmoid(write_BH) * jnp.tanh(new_BH)
    return LSTMState(jax.nn.sigmoid(show_BH) * jnp.tanh(cell_BH), cell_BH)


CELL = Cell(lstm_gates, lstm_step, hidden=lambda state: state.hidden_BH)


def lstm(
    x_BT4H: Float[Array, "B T 4 H"],
    initial: LSTMState,
    w_H4H: Float[Array, "H 4 H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], LSTMState]:
    """`lstm_step` along a sequence: the hidden states, and the last state. segments_BT, unroll: see rnn."""
    return run(CELL, x_BT4H, initial, w_H4H, None, segments_BT, unroll)
