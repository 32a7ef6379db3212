"""A table with one learned vector a position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Int

from txjax.ops.positions.base import Position, Table
from txjax.schema import require


@dataclass(frozen=True)
class Learned(Position, kind="learned"):
    """x + table[position + offset], a table of model.context rows: nothing exists past its end. Radford et al. 2018.

    offset: rows of the table before that of position 0, which no token has (2 in RoBERTa, BART and OPT).
    """

    offset: int = 0

    bounded: ClassVar[bool] = True

    def check(self) -> None:
        require(self.offset >= 0, f"offset must not be negative, got {self.offset}")

    def tables(self, *, context: int, width: int, num_heads: int) -> dict[str, Table]:
        return {"table": ((context + self.offset, width), ("context", "embed"))}

    def embed(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "#B T"], tables: Mapping[str, Array]
    ) -> Float[Array, "B T D"]:
        return x_BTD + tables["table"][positions_BT + self.offset].astype(x_BTD.dtype)
