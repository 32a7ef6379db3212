"""A table with one learned vector a position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Int

from txjax.ops.positions.base import Position, Table


@dataclass(frozen=True)
class Learned(Position, kind="learned"):
    """x + table[position], a table of model.context rows: nothing exists past its end. Radford et al. 2018."""

    bounded: ClassVar[bool] = True

    def tables(self, *, context: int, width: int, num_heads: int) -> dict[str, Table]:
        return {"table": ((context, width), ("context", "embed"))}

    def embed(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "#B T"], tables: Mapping[str, Array]
    ) -> Float[Array, "B T D"]:
        return x_BTD + tables["table"][positions_BT].astype(x_BTD.dtype)
