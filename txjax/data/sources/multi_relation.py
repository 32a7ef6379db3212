"""Recall of several places at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, numbered, require_at_least
from txjax.schema import require

MOST = 1 << 16  # classes, more than which a softmax could not learn from a short run


@dataclass(frozen=True)
class MultiRelation(Task, kind="multi_relation"):
    """Random symbols x_0 x_1 ...: at each t >= r the target is all of x_{t-1}, ..., x_{t-r} together, one class of
    symbols^r, numbered by sum over i of x_{t-i} symbols^(i-1).

    length: tokens. symbols: how many there are. relations: r.

    Why one class and not r questions: were the offset asked for by a token, one head could look where it is told.
    Here every position has to bring r symbols home at once, in order, which is what several heads are for. Where the
    logits are a sum of r parts, one a symbol, the loss is the sum of r cross-entropies, so that nothing is lost to r
    separate classifiers but the size of the vocabulary.
    """

    length: int = 16
    symbols: int = 4
    relations: int = 4

    def check(self) -> None:
        super().check()
        require_at_least(self, 1, "relations")
        require_at_least(self, 2, "symbols")
        require(self.length > self.relations, f"length must be more than relations={self.relations}, got {self.length}")
        require(
            self.answers <= MOST,
            f"symbols^relations must be at most {MOST:,} classes, got {self.symbols}^{self.relations}: choose fewer",
        )

    @property
    def names(self) -> tuple[str, ...]:
        return (*numbered("s", self.symbols), *numbered("c", self.answers))

    @property
    def context(self) -> int:
        return self.length

    @property
    def answers(self) -> int:
        return self.symbols**self.relations

    def make(self, draws: Draws) -> Arrays:
        tokens = draws.below(self.symbols, self.length)
        targets = np.zeros_like(tokens)
        for offset in range(1, self.relations + 1):
            targets[:, offset:] += tokens[:, :-offset] * self.symbols ** (offset - 1)
        return Arrays(tokens, self.symbols + targets, np.arange(self.length) >= self.relations)
