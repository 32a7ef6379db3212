"""Key-value retrieval, also known as associative recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, numbered, require_at_least
from txjax.schema import require


@dataclass(frozen=True)
class Retrieval(Task, kind="retrieval"):
    """k1 v1 k2 v2 ... kn vn, then keys again: at each such query the target is the value that its key came with.

    pairs: n, of keys that differ. keys, values: how many of each there are.
    queries: how many of the pairs are asked for, each once.
    pairing: apart, two tokens a pair, or joined, one token for key and value together, of keys * values more ids.
        Apart takes two layers: the first has to bring each key to its value. Joined, one layer can do.
    length: tokens; none: just enough. Queries stand on every second place after the pairs: slots 0, 1, ...
    power: slot s is taken with a probability in proportion to (s + 1)^(power - 1), so that 1 is uniform and a smaller
        power asks sooner; the earliest pairs choose first.
    filler: what stands where no query does: a blank, or any token drawn at random.
    value_draws: independent, or distinct: no value twice in an example.

    Arora et al. 2023, "Zoology", whose form (HazyResearch/zoology, multiquery_ar.py) is, ids included: of a vocabulary
    V, keys = V/2 - 1, values = V/2, value_draws = distinct, queries = pairs. One query without slots to choose from is
    the older single-query form.
    """

    pairs: int = 16
    keys: int = 32
    values: int = 16
    queries: int = 1
    pairing: Literal["apart", "joined"] = "apart"
    length: int | None = None
    power: float = 0.01
    filler: Literal["blank", "random"] = "blank"
    value_draws: Literal["independent", "distinct"] = "independent"

    def check(self) -> None:
        super().check()
        require_at_least(self, 1, "pairs", "keys", "values", "queries")
        require(self.keys >= self.pairs, f"keys must be at least pairs={self.pairs}, got {self.keys}")
        require(self.queries <= self.pairs, f"queries must be at most pairs={self.pairs}, got {self.queries}")
        require(
            self.value_draws == "independent" or self.values >= self.pairs,
            f"values must be at least pairs={self.pairs} to be distinct, got {self.values}",
        )
        require(
            self.length is None or self.length >= self._shortest,
            f"length must be at least {self._shortest} for {self.pairs} pairs and {self.queries} queries, "
            f"got {self.length}",
        )
        require(self.power > 0, f"power must be positive, got {self.power}")

    @property
    def _shortest(self) -> int:
        return self._start + 2 * self.queries - 1

    @property
    def _start(self) -> int:
        """Where the pairs end and the slots begin."""
        return self.pairs * (2 if self.pairing == "apart" else 1)

    @property
    def names(self) -> tuple[str, ...]:
        keys, values = numbered("k", self.keys), numbered("v", self.values)
        joined = (f"{key}{value}" for key in keys for value in values) if self.pairing == "joined" else ()
        return (".", *keys, *values, *joined)

    @property
    def context(self) -> int:
        return self.length or self._shortest

    @property
    def answers(self) -> int:
        return self.values

    def make(self, draws: Draws) -> Arrays:
        keys = draws.distinct(self.keys, self.pairs)
        drawn = draws.below if self.value_draws == "independent" else draws.distinct
        values = drawn(self.values, self.pairs)
        asked = np.sort(draws.distinct(self.pairs, self.queries), 1)
        places = self._start + 2 * self._slots(draws)

        first_value = 1 + self.keys
        tokens = np.zeros((len(keys), self.context), np.int64)
        if self.pairing == "apart":
            tokens[:, 0 : self._start : 2] = 1 + keys
            tokens[:, 1 : self._start : 2] = first_value + values
        else:
            tokens[:, : self._start] = first_value + self.values + keys * self.values + values
        np.put_along_axis(tokens, places, 1 + np.take_along_axis(keys, asked, 1), 1)
        targets, weights = np.zeros_like(tokens), np.zeros_like(tokens)
        np.put_along_axis(targets, places, first_value + np.take_along_axis(values, asked, 1), 1)
        np.put_along_axis(weights, places, 1, 1)
        if self.filler == "random":
            tokens = np.where(tokens == 0, draws.below(len(self.names), self.context), tokens)
        return Arrays(tokens, targets, weights)

    def _slots(self, draws: Draws) -> np.ndarray:
        """[B, queries], drawn one after another without replacement: the order of exponential times of such rates."""
        count = (self.context - self._start + 1) // 2
        rates = np.arange(1, count + 1) ** (self.power - 1.0)
        times = -np.log(draws.uniform(count)) / rates
        return np.argsort(times, 1, kind="stable")[:, : self.queries]
