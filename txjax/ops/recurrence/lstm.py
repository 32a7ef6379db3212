"""Long short-term memory."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import product, run


class LSTMState(NamedTuple):
    """What is shown of the cell, and what it keeps."""

    hidden_BH: Float[Array, "B H"]
    cell_BH: Float[Array, "B H"]


def lstm_step(state: LSTMState, x_B4H: Float[Array, "B 4 H"], w_H4H: Float[Array, "H 4 H"]) -> LSTMState:
    """c' = f c + i g and h' = o tanh(c'), where i, f, o are the sigmoid and g is the tanh of x + h w.

    x holds the projected inputs of i, f, g and o, biases included. Hochreiter and Schmidhuber 1997; f: Gers et al.
    2000.
    """
    gates_B4H = x_B4H.astype(jnp.float32) + product(state.hidden_BH, w_H4H, x_B4H)
    write_BH, keep_BH, show_BH = (jax.nn.sigmoid(gates_B4H[:, gate]) for gate in (0, 1, 3))
    cell_BH = keep_BH * state.cell_BH + write_BH * jnp.tanh(gates_B4H[:, 2])
    return LSTMState(show_BH * jnp.tanh(cell_BH), cell_BH)


def lstm(
    x_BT4H: Float[Array, "B T 4 H"],
    initial: LSTMState,
    w_H4H: Float[Array, "H 4 H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], LSTMState]:
    """`lstm_step` along a sequence: the hidden states, and the last state. segments_BT, unroll: see rnn."""

    def step(state: LSTMState, x_B4H: Array) -> LSTMState:
        return lstm_step(state, x_B4H, w_H4H)

    return run(step, lambda state: state.hidden_BH, x_BT4H, initial, segments_BT, unroll)
