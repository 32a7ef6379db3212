"""A simple recurrent network as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.context import Context, State
from txjax.nn.recurrent import Inputs, Recurrent, Stepwise, remember
from txjax.ops.recurrence import rnn


@dataclass(frozen=True)
class RNN(Stepwise, kind="rnn"):
    """h_t = tanh(x_t W + b + h_(t-1) U), as wide as the model. Elman 1990."""

    def module(self, model: Model, name: str) -> RNNModule:
        return RNNModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Float[Array, "B D"]:
        return jnp.zeros((batch, model.width), jnp.float32)


class RNNModule(nn.Module):
    mixer: RNN
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        x_BTH = Inputs(self.model, 1, name="input")(x_BTD)[:, :, 0]
        w_HH = Recurrent(self.model, 1, name="recurrent")()[:, 0]
        sequence = partial(rnn, w_HH=w_HH, unroll=self.mixer.unroll)
        return remember(sequence, self.mixer, self.model, x_BTH, context, state)
