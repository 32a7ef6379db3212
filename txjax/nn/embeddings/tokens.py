"""A table with a vector for each id."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.config.model import Model
from txjax.config.parts import Embedding
from txjax.nn.context import constrain
from txjax.nn.parameters import declare
from txjax.schema import require


@dataclass(frozen=True)
class Tokens(Embedding, kind="tokens"):
    """table[token], times sqrt(E) where scale is sqrt_width (Vaswani et al. 2017, section 3.4), plus types[type], for
    vectors of width E.

    types: rows of a table of token types, added to the tokens' vectors (sentence A or B: Devlin et al. 2019); 0: none.
    width: E, where the table is one factor of the embedding, and x W + b, to the model's width, the other (Lan et al.
        2020, section 3.1); learned positions and embedding_norm are of width E then. none: E is the model's width D.
    """

    scale: Literal["none", "sqrt_width"] = "none"
    types: int = 0
    width: int | None = None

    def check(self) -> None:
        require(self.types >= 0, f"types must not be negative, got {self.types}")
        require(self.width is None or self.width > 0, f"width must be at least 1 or none, got {self.width}")

    @property
    def own_width(self) -> int | None:
        return self.width

    def module(self, model: Model, name: str) -> TokensModule:
        return TokensModule(self, model, name=name)


class TokensModule(nn.Module):
    tokens: Tokens
    model: Model

    @nn.compact
    def __call__(
        self, batch: Batch, table_VE: Float[Array, "V E"] | None = None
    ) -> tuple[Float[Array, "B T E"], Float[Array, "V E"]]:
        """table_VE: of another embedding, to be shared; None: its own."""
        model, E = self.model, self.model.embedding_width
        std = model.init.spread("embedding", E, model.num_layers)
        if table_VE is None:
            axes = ("vocab", "embed")
            # gathered over fsdp as every weight is; looked up in its shards, the rows would have to be laid out anew
            table_VE = constrain(declare(self, "w", (model.vocab, E), axes, std=std), *axes)
        x_BTE = table_VE[batch.tokens].astype(model.dtype)
        if self.tokens.scale == "sqrt_width":
            x_BTE = x_BTE * jnp.asarray(math.sqrt(E), x_BTE.dtype)
        if self.tokens.types:
            types_RE = declare(self, "types", (self.tokens.types, E), ("types", "embed"), std=std)
            of_BT = jnp.zeros(batch.tokens.shape, jnp.int32) if batch.types is None else batch.types
            x_BTE = x_BTE + types_RE[of_BT].astype(x_BTE.dtype)
        return x_BTE, table_VE
