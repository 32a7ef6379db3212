"""A class for each row: of a text, an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from jaxtyping import Array

from txjax.batch import Batch
from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.heads.linear import HeadMatrix
from txjax.nn.heads.pooler import Pool, Pooler, pool
from txjax.schema import require


@dataclass(frozen=True)
class Classes(Head, kind="classes"):
    """v w + b, one row of logits for each row of tokens, [B, 1, outputs]; targets and weights are [B, 1].

    outputs: the number of classes.
    pool: v is the state of the first or the last real token, or the mean over the real ones.
    pooler: tanh puts v = tanh(v W + b) between (Devlin et al. 2019). Dropout is on v, where dropout_sites has head.
    """

    outputs: int = 2
    pool: Pool = "first"
    pooler: Literal["none", "tanh"] = "none"

    generates: ClassVar[bool] = False

    def check(self) -> None:
        require(self.outputs > 1, f"outputs must be at least 2, got {self.outputs}")

    def module(self, model: Model, name: str) -> HeadMatrix:
        return HeadMatrix(model, (model.width, self.outputs), ("embed", "classes"), bias=True, name=name)

    def read(self, model: Model, x_BTD: Array, batch: Batch, context: Any) -> Array:
        if self.pooler == "tanh":
            v_BD = Pooler(model, self.pool, name="pooler")(x_BTD, batch.segments)
        else:
            v_BD = pool(x_BTD, batch.segments, self.pool)
        return context.drop(v_BD, "head", 0) if "head" in model.dropout_sites else v_BD
