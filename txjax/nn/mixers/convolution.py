"""A causal convolution as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.nn.context import Context, State
from txjax.nn.parameters import declare
from txjax.nn.recurrent import FixedState, remember
from txjax.ops.convolution import causal_convolution
from txjax.schema import require


@dataclass(frozen=True)
class Convolution(FixedState, kind="convolution"):
    """A weighted sum of the last `kernel_size` inputs, the token's own included. van den Oord et al. 2016.

    channels: full multiplies each input by a matrix, depthwise each channel by a number.
    """

    kernel_size: int = 4
    channels: Literal["full", "depthwise"] = "full"

    def check(self) -> None:
        require(self.kernel_size > 1, f"kernel_size must be at least 2, got {self.kernel_size}: 1 mixes no tokens")

    def module(self, model: Model, name: str) -> ConvolutionModule:
        return ConvolutionModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Float[Array, "B P D"]:
        return jnp.zeros((batch, self.kernel_size - 1, model.width), model.dtype)


class ConvolutionModule(nn.Module):
    mixer: Convolution
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        D, J = self.model.width, self.mixer.kernel_size
        full = self.mixer.channels == "full"
        shape, axes = ((J, D, D), ("kernel", "embed", "mlp")) if full else ((J, D), ("kernel", "mlp"))
        std = self.model.init.spread("residual", J * D if full else J, self.model.num_layers)
        w = declare(self, "w", shape, axes, std=std)
        b_D = declare(self, "b", (D,), ("mlp",))
        sequence = partial(causal_convolution, w=w, b_E=b_D)
        return remember(sequence, self.mixer, self.model, x_BTD, context, state)
