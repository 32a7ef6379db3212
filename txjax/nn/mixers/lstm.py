"""Long short-term memory as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.context import Context, State
from txjax.nn.recurrent import Inputs, Recurrent, Stepwise, remember
from txjax.ops.recurrence import LSTMState, lstm


@dataclass(frozen=True)
class LSTM(Stepwise, kind="lstm"):
    """A cell that gates write, keep and show, as wide as the model; see txjax.ops.recurrence.lstm_step. Hochreiter and
    Schmidhuber 1997.

    forget_bias: what the bias of the gate that keeps starts at: at 1 the cell remembers before it has learned to, at
    0 it loses half at each step. Gers et al. 2000; Jozefowicz et al. 2015.
    """

    forget_bias: float = 1.0

    def module(self, model: Model, name: str) -> LSTMModule:
        return LSTMModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> LSTMState:
        zeros_BD = jnp.zeros((batch, model.width), jnp.float32)
        return LSTMState(zeros_BD, zeros_BD)


class LSTMModule(nn.Module):
    mixer: LSTM
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        bias_start = ((0.0,), (self.mixer.forget_bias,), (0.0,), (0.0,))  # gates are input, forget, cell, output
        x_BT4H = Inputs(self.model, 4, bias_start, name="input")(x_BTD)
        w_H4H = Recurrent(self.model, 4, name="recurrent")()
        sequence = partial(lstm, w_H4H=w_H4H, unroll=self.mixer.unroll)
        return remember(sequence, self.mixer, self.model, x_BT4H, context, state)
