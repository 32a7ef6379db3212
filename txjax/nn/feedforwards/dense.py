"""The dense feed-forward network, plain or gated."""

from __future__ import annotations

from dataclasses import dataclass

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import FeedForward
from txjax.nn.context import Context, constrain, sow
from txjax.nn.linear import Linear
from txjax.ops.activations import ACTIVATIONS, Activation
from txjax.schema import require


@dataclass(frozen=True)
class Dense(FeedForward, kind="dense"):
    """f(x W_in + b) W_out + b, or f(x W_gate, x W_in) W_out where the activation is gated (swiglu, geglu):
    see ops/activations.py.

    hidden: F; none: 4 D, or 8/3 D rounded up to a multiple of 8 where gated, which has as many parameters.
    """

    hidden: int | None = None
    activation: Activation = "gelu_tanh"
    bias: bool = True

    def check(self) -> None:
        require(self.hidden is None or self.hidden > 0, f"hidden must be at least 1 or none, got {self.hidden}")

    @property
    def gated(self) -> bool:
        return ACTIVATIONS[self.activation][1]

    def width(self, model_width: int) -> int:
        """F of a model of width D."""
        if self.hidden is not None:
            return self.hidden
        return -(-8 * model_width // 24) * 8 if self.gated else 4 * model_width

    def module(self, model: Model, name: str) -> DenseModule:
        return DenseModule(self, model, name=name)


class DenseModule(nn.Module):
    dense: Dense
    model: Model

    @nn.compact
    def __call__(self, x_BTD: Float[Array, "B T D"], context: Context) -> Float[Array, "B T D"]:
        D, F = self.model.width, self.dense.width(self.model.width)
        activation, gated = ACTIVATIONS[self.dense.activation]

        def project(name: str) -> Linear:
            return Linear(self.model, (D, F), ("embed", "mlp"), bias=self.dense.bias, name=name)

        if gated:
            hidden_BTF = activation(project("gate")(x_BTD), project("in")(x_BTD))
        else:
            hidden_BTF = activation(project("in")(x_BTD))
        hidden_BTF = constrain(hidden_BTF, "batch", "length", "mlp")
        sow(self, context, "feedforward_hidden", hidden_BTF)
        return Linear(self.model, (F, D), ("mlp", "embed"), role="residual", bias=self.dense.bias, name="out")(
            hidden_BTF
        )
