"""A table with a vector for each id."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.config.model import Embedding, Model
from txjax.nn.context import constrain
from txjax.nn.parameters import declare
from txjax.schema import require


@dataclass(frozen=True)
class Tokens(Embedding, kind="tokens"):
    """table[token], times sqrt(D) where scale is sqrt_width (Vaswani et al. 2017, section 3.4), plus types[type].

    types: rows of a table of token types, added to the tokens' vectors (sentence A or B: Devlin et al. 2019); 0: none.
    """

    scale: Literal["none", "sqrt_width"] = "none"
    types: int = 0

    def check(self) -> None:
        require(self.types >= 0, f"types must not be negative, got {self.types}")

    def module(self, model: Model, name: str) -> TokensModule:
        return TokensModule(self, model, name=name)


class TokensModule(nn.Module):
    tokens: Tokens
    model: Model

    @nn.compact
    def __call__(
        self, batch: Batch, table_VD: Float[Array, "V D"] | None = None
    ) -> tuple[Float[Array, "B T D"], Float[Array, "V D"]]:
        """table_VD: of another embedding, to be shared; None: its own."""
        model = self.model
        std = model.init.spread("embedding", model.width, model.num_layers)
        if table_VD is None:
            axes = ("vocab", "embed")
            # gathered over fsdp as every weight is; looked up in its shards, the rows would have to be laid out anew
            table_VD = constrain(declare(self, "w", (model.vocab, model.width), axes, std=std), *axes)
        x_BTD = table_VD[batch.tokens].astype(model.dtype)
        if self.tokens.scale == "sqrt_width":
            x_BTD = x_BTD * jnp.asarray(math.sqrt(model.width), x_BTD.dtype)
        if self.tokens.types:
            types_RD = declare(self, "types", (self.tokens.types, model.width), ("types", "embed"), std=std)
            of_BT = jnp.zeros(batch.tokens.shape, jnp.int32) if batch.types is None else batch.types
            x_BTD = x_BTD + types_RD[of_BT].astype(x_BTD.dtype)
        return x_BTD, table_VD
