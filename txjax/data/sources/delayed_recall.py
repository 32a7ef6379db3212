"""Remembering over a gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, numbered, require_at_least


@dataclass(frozen=True)
class DelayedRecall(Task, kind="delayed_recall"):
    """s1 ... sc, blanks, then a mark and c - 1 blanks at which s1 ... sc are to be said: the answer is never read.

    count: c, how many symbols are to be remembered. gap: blanks before the mark. symbols: how many there are.

    The copying problem of Hochreiter and Schmidhuber 1997; with c = 10 of 8 symbols as in Arjovsky et al. 2016.
    """

    count: int = 1
    gap: int = 30
    symbols: int = 8

    def check(self) -> None:
        super().check()
        require_at_least(self, 1, "count", "symbols")
        require_at_least(self, 0, "gap")

    @property
    def names(self) -> tuple[str, ...]:
        return (".", "?", *numbered("s", self.symbols))

    @property
    def context(self) -> int:
        return 2 * self.count + self.gap

    @property
    def answers(self) -> int:
        return self.symbols

    def make(self, draws: Draws) -> Arrays:
        symbols = 2 + draws.below(self.symbols, self.count)
        tokens = np.zeros((len(symbols), self.context), np.int64)
        tokens[:, : self.count] = symbols
        asked = self.count + self.gap
        tokens[:, asked] = 1
        targets = np.zeros_like(tokens)
        targets[:, asked:] = symbols
        return Arrays(tokens, targets, np.arange(self.context) >= asked)
