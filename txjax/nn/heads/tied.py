"""A head that is the embedding's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.linear import Linear
from txjax.nn.parameters import declare
from txjax.ops.linear import linear
from txjax.schema import require


@dataclass(frozen=True)
class Tied(Head, kind="tied"):
    """hidden table^T, plus a bias for each id where there is one. Press and Wolf 2017. Where the table has a width of
    its own, E, hidden W table^T, with a matrix W (D, E).

    scale: rsqrt_width divides what the table multiplies by the square root of its width first (Raffel et al. 2020).
    """

    bias: bool = False
    scale: Literal["none", "rsqrt_width"] = "none"

    tied: ClassVar[bool] = True

    def validate(self, model: Model) -> None:
        require(
            model.embedding.reads == "ids",
            f"head=tied needs the table of an embedding of ids, got embedding={model.embedding.kind}: use head=linear",
        )

    def module(self, model: Model, name: str) -> TiedModule:
        return TiedModule(self, model, projects=model.embedding.own_width is not None, name=name)


class TiedModule(nn.Module):
    """projects: hidden states come in the model's width, and the table has one of its own."""

    head: Tied
    model: Model
    projects: bool

    @nn.compact
    def __call__(self, hidden: Float[Array, "... D"], table_VE: Float[Array, "V E"]) -> Float[Array, "... V"]:
        V, E = table_VE.shape
        if self.projects:
            hidden = Linear(self.model, (self.model.width, E), ("embed", "rank"), name="project")(hidden)
        if self.head.scale == "rsqrt_width":
            hidden = hidden * jnp.asarray(E**-0.5, hidden.dtype)
        b_V = declare(self, "b", (V,), ("vocab",)) if self.head.bias else None
        return linear(hidden, table_VE.T, b_V)
