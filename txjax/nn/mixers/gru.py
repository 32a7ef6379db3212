"""A gated recurrent unit as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.context import Context, State
from txjax.nn.parameters import declare
from txjax.nn.recurrent import Inputs, Recurrent, Stepwise, remember
from txjax.ops.recurrence import gru


@dataclass(frozen=True)
class GRU(Stepwise, kind="gru"):
    """A state as wide as the model, which one gate keeps and another resets; see txjax.ops.recurrence.gru_step. Cho et
    al. 2014.
    """

    def module(self, model: Model, name: str) -> GRUModule:
        return GRUModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Float[Array, "B D"]:
        return jnp.zeros((batch, model.width), jnp.float32)


class GRUModule(nn.Module):
    mixer: GRU
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        x_BT3H = Inputs(self.model, 3, name="input")(x_BTD)
        w_H3H = Recurrent(self.model, 3, name="recurrent")()
        b_H = declare(self, "b", (self.model.width,), ("state",))  # beside the product that the reset gate scales
        sequence = partial(gru, w_H3H=w_H3H, b_H=b_H, unroll=self.mixer.unroll)
        return remember(sequence, self.mixer, self.model, x_BT3H, context, state)
