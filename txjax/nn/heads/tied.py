"""A head that is the embedding's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Head, Model
from txjax.nn.parameters import declare
from txjax.ops.linear import linear
from txjax.schema import require


@dataclass(frozen=True)
class Tied(Head, kind="tied"):
    """hidden table^T, plus a bias for each id where there is one. Press and Wolf 2017.

    scale: rsqrt_width divides hidden states by sqrt(D) first (Raffel et al. 2020).
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
        return TiedModule(self, model, name=name)


class TiedModule(nn.Module):
    head: Tied
    model: Model

    @nn.compact
    def __call__(self, hidden: Float[Array, "... D"], table_VD: Float[Array, "V D"]) -> Float[Array, "... V"]:
        if self.head.scale == "rsqrt_width":
            hidden = hidden * jnp.asarray(self.model.width**-0.5, hidden.dtype)
        b_V = declare(self, "b", (table_VD.shape[0],), ("vocab",)) if self.head.bias else None
        return linear(hidden, table_VD.T, b_V)
