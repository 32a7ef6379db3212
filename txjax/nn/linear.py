"""Parameters of linear maps, and embeddings."""

from __future__ import annotations

import math

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.config import Model
from txjax.config.parts import Role
from txjax.nn.parameters import declare
from txjax.ops.linear import linear


class Linear(nn.Module):
    """x w + b over the last `contract` axes of x, which are the first of `shape`.

    role: residual where it writes onto the residual stream; the model's initialisation asks. gain: a factor on what
    it answers.
    """

    model: Model
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    contract: int = 1
    role: Role = "weight"
    gain: float = 1.0
    bias: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, ...]) -> Float[Array, ...]:
        std = self.model.init.spread(self.role, math.prod(self.shape[: self.contract]), self.model.num_layers)
        w = declare(self, "w", self.shape, self.axes, std=self.gain * std)
        b = declare(self, "b", self.shape[self.contract :], self.axes[self.contract :]) if self.bias else None
        return linear(x, w, b, contract=self.contract)


class Table(nn.Module):
    """A learned table: positions, say."""

    model: Model
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    leaf: str = "w"

    @nn.compact
    def __call__(self) -> Float[Array, "R D"]:
        model = self.model
        std = model.init.spread("embedding", model.embedding_width, model.num_layers)
        return declare(self, self.leaf, self.shape, self.axes, std=std)
