"""Tasks that turn one string into another of the same length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, answered, column, numbered, require_at_least


@dataclass(frozen=True)
class Transduction(Task):
    """A string, a mark, and another string to predict.

    length: n, symbols of the string. symbols: how many there are to draw from.
    """

    length: int = 16
    symbols: int = 16

    def check(self) -> None:
        super().check()
        require_at_least(self, 1, "length", "symbols")

    @property
    def names(self) -> tuple[str, ...]:
        return ("=", *numbered("s", self.symbols))

    @property
    def context(self) -> int:
        return 2 * self.length

    @property
    def answers(self) -> int:
        return self.symbols

    def string(self, draws: Draws) -> np.ndarray:
        """[B, n], each symbol drawn for itself."""
        return 1 + draws.below(self.symbols, self.length)

    def transduced(self, string: np.ndarray, result: np.ndarray) -> Arrays:
        return answered(np.concatenate([string, column(0, len(string))], 1), result)
