"""A head with a matrix of its own."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.linear import Linear
from txjax.schema import require


@dataclass(frozen=True)
class LinearHead(Head, kind="linear"):
    """hidden w + b. outputs: none: the vocabulary; or a number of tags for each token."""

    outputs: int | None = None
    bias: bool = False

    def check(self) -> None:
        require(self.outputs is None or self.outputs > 0, f"outputs must be at least 1 or none, got {self.outputs}")

    def module(self, model: Model, name: str) -> Linear:
        shape = (model.width, self.outputs or model.vocab)
        return HeadMatrix(model, shape, ("embed", "vocab"), bias=self.bias, name=name)


class HeadMatrix(Linear):
    """A linear map that has no use for the embedding's table."""

    def __call__(self, x: Float[Array, "... D"], table_VD: Array | None = None) -> Float[Array, "... V"]:
        return super().__call__(x)
