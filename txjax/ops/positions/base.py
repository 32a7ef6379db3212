"""The interface of a position scheme: three places where order can enter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Array, Float, Int

from txjax.ops.masks import Bias
from txjax.schema import Kind

Angles = tuple[Array, Array]
Table = tuple[tuple[int, ...], tuple[str, ...]]


class Position(Kind, home="txjax.ops.positions"):
    """A scheme fills in the hooks that it uses: add to the embedding, rotate queries and keys, bias the scores.

    bounded: whether positions end (a table with model.context rows); running past the end is an error.
    """

    bounded: ClassVar[bool] = False

    def validate(self, *, head_dim: int, width: int, num_heads: int) -> None:
        """Refuse a model that the scheme does not fit: raise ConfigError."""

    def tables(self, *, context: int, width: int, num_heads: int) -> dict[str, Table]:
        """Shape and logical axes of each learned table, by name."""
        return {}

    def embed(
        self, x_BTD: Float[Array, "B T D"], positions_BT: Int[Array, "#B T"], tables: Mapping[str, Array]
    ) -> Float[Array, "B T D"]:
        """The embeddings with positions added."""
        return x_BTD

    def angles(self, positions_BT: Int[Array, "#B T"], head_dim: int) -> Angles | None:
        """Cosines and sines, each (#B, T, P) in float32, by which `rotate` turns P pairs; made once for all layers."""
        return None

    def rotate(self, x_BNTH: Float[Array, "B N T H"], angles: Angles) -> Float[Array, "B N T H"]:
        """Queries or keys, turned by their positions."""
        return x_BNTH

    def temperature(self) -> float:
        """Factor on the product of a query and a key that comes with `rotate`, which alone would leave it as it is."""
        return 1.0

    def bias(self, num_heads: int, tables: Mapping[str, Array], *, causal: bool) -> Bias | None:
        """What is added to the scores, in all layers the same, or None. causal: no key lies after its query."""
        return None


@dataclass(frozen=True)
class NoPosition(Position, kind="none"):
    """No order but that of the causal mask. Haviv et al. 2022; Kazemnejad et al. 2023."""
