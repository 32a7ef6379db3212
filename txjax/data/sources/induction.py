"""Induction: going on as before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, numbered, require_at_least
from txjax.schema import require


@dataclass(frozen=True)
class Induction(Task, kind="induction"):
    """A segment a1 ... an, others b1 ... bg, the segment again, and others up to one length: inside the second copy
    each token but the first is to be predicted, from the token that followed its like in the first.

    segment: n. gap: the most that g may be. It is drawn from 0 .. gap, so that positions alone do not find the answer,
        as they would at a fixed distance; 0: the segment comes twice in a row.
    symbols: how many there are. The segment and the others are all different, so that the answer is never in doubt.

    Olsson et al. 2022, "In-context learning and induction heads".
    """

    segment: int = 12
    gap: int = 8
    symbols: int = 32

    def check(self) -> None:
        super().check()
        require_at_least(self, 2, "segment")
        require_at_least(self, 0, "gap")
        least = self.segment + self.gap
        require(self.symbols >= least, f"symbols must be at least segment + gap = {least}, got {self.symbols}")

    @property
    def names(self) -> tuple[str, ...]:
        return numbered("s", self.symbols)

    @property
    def context(self) -> int:
        return 2 * self.segment + self.gap - 1

    @property
    def answers(self) -> int:
        return self.symbols

    def make(self, draws: Draws) -> Arrays:
        symbols = draws.distinct(self.symbols, self.segment + self.gap)
        second = self.segment + draws.below(self.gap + 1, 1)  # where the second copy begins
        place = np.arange(2 * self.segment + self.gap)
        copied = (place >= second) & (place < second + self.segment)
        read = np.where(copied, place - second, np.where(place < second, place, place - self.segment))
        sequences = np.take_along_axis(symbols, read, 1)
        return Arrays(sequences[:, :-1], sequences[:, 1:], copied[:, 1:] & copied[:, :-1])
