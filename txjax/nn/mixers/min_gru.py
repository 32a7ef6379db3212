"""The gated unit without a loop, as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.context import Context, State
from txjax.nn.recurrent import FixedState, Inputs, remember
from txjax.ops.recurrence import min_gru


@dataclass(frozen=True)
class MinGRU(FixedState, kind="min_gru"):
    """h_t = (1 - z_t) h_(t-1) + z_t n_t, with gates of the token alone: a parallel prefix gives all h_t. As wide as the
    model. Feng et al. 2024.
    """

    def module(self, model: Model, name: str) -> MinGRUModule:
        return MinGRUModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Float[Array, "B D"]:
        return jnp.zeros((batch, model.width), jnp.float32)


class MinGRUModule(nn.Module):
    mixer: MinGRU
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        return remember(min_gru, self.mixer, self.model, Inputs(self.model, 2, name="input")(x_BTD), context, state)
