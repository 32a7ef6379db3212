"""Long short-term memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import rnn
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import Cell, run, split, wide
from txjax.schema import ConfigError


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


def cudnn_lstm(
    x_BTD: Float[Array, "B T D"],
    initial: LSTMState,
    w_D4H: Float[Array, "D 4 H"],
    b_4H: Float[Array, "4 H"],
    w_H4H: Float[Array, "H 4 H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T H"], LSTMState]:
    """`lstm` of x w_D4H + b, all of it by cuDNN, in float32. ConfigError without an NVIDIA GPU, or where documents are
    packed into rows: it knows no place in a row at which a state is emptied.
    """
    setting = "mixer.lstm.implementation=cudnn"
    if jax.default_backend() != "gpu":
        raise ConfigError(f"{setting} needs an NVIDIA GPU, found {jax.default_backend()}: use scan")
    if segments_BT is not None:
        raise ConfigError(f"{setting} cannot tell documents that are packed into a row apart: use scan")
    (B, T, D), H = x_BTD.shape, w_H4H.shape[0]
    # one vector, for each gate a row a unit: weights of the input, of the state, a bias beside each
    parts = (w_D4H.transpose(1, 2, 0), w_H4H.transpose(1, 2, 0), b_4H, jnp.zeros_like(b_4H))
    weights = jnp.concatenate([part.astype(jnp.float32).ravel() for part in parts])
    hidden_1BH, cell_1BH = (state[None].astype(jnp.float32) for state in initial)
    lengths_B = jnp.full((B,), T, jnp.int32)
    fused: Any = rnn.lstm(x_BTD.astype(jnp.float32), hidden_1BH, cell_1BH, weights, lengths_B, D, H, 1, 0.0, False)
    y_BTH, hidden_1BH, cell_1BH = fused
    return y_BTH, LSTMState(hidden_1BH[0], cell_1BH[0])
