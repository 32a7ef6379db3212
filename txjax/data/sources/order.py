"""Which of two came first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, answered, column, numbered, require_at_least
from txjax.schema import require


@dataclass(frozen=True)
class Order(Task, kind="order"):
    """x1 ... xn, all different, then two of them, a b, and a mark: the target is the one of a and b that came first.

    length: n. symbols: how many there are. Which of the two comes first, and in which order they are asked, are
    independent, so that a model without any sense of order can do no better than one half.
    """

    length: int = 16
    symbols: int = 32

    def check(self) -> None:
        super().check()
        require_at_least(self, 2, "length")
        require(self.symbols >= self.length, f"symbols must be at least length={self.length}, got {self.symbols}")

    @property
    def names(self) -> tuple[str, ...]:
        return ("?", *numbered("s", self.symbols))

    @property
    def context(self) -> int:
        return self.length + 3

    @property
    def answers(self) -> int:
        return self.symbols

    def make(self, draws: Draws) -> Arrays:
        symbols = 1 + draws.distinct(self.symbols, self.length)
        places = draws.distinct(self.length, 2)
        pair = np.take_along_axis(symbols, places, 1)
        first = np.take_along_axis(symbols, places.min(1, keepdims=True), 1)
        return answered(np.concatenate([symbols, pair, column(0, len(pair))], 1), first)
