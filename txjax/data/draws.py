"""Random numbers by counter: what an example is made of depends on its number alone, not on those before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

GOLDEN, FIRST, SECOND = (np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
BITS_OF_DRAWS = np.uint64(20)  # an example may draw 2^20 numbers, before those of the next begin


def key_of(stream: int, seed: int) -> int:
    """A key of its own for each stream, a small number, and seed, any integer; by NumPy's SeedSequence."""
    entropy = np.random.SeedSequence([stream, seed & (1 << 64) - 1])
    return int(entropy.generate_state(1, np.uint64)[0])


class Draws:
    """The streams of several examples side by side: SplitMix64, number n of the one stream of a key being
    mix(key + n golden). Steele, Lea and Flood 2014. NumPy's own generators would have to be set up for each example.
    """

    def __init__(self, key: int, indices: Sequence[int] | np.ndarray) -> None:
        first = np.asarray(indices).astype(np.uint64) << BITS_OF_DRAWS
        self._start = np.uint64(key) + first * GOLDEN
        self._drawn = 0
        self.rows = np.arange(len(first))

    def bits(self, count: int) -> np.ndarray:
        """uint64 [B, count], the next numbers of each example."""
        numbers = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64)
        self._drawn += count
        z = self._start[:, None] + numbers * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * FIRST
        z = (z ^ (z >> np.uint64(27))) * SECOND
        return z ^ (z >> np.uint64(31))

    def below(self, limit: int | np.ndarray, count: int) -> np.ndarray:
        """int64 [B, count], each uniform in 0 .. limit - 1 (to limit / 2^32); one limit for all, or one for each."""
        high = (self.bits(count) >> np.uint64(32)).astype(np.int64)
        return high * limit >> 32

    def uniform(self, count: int) -> np.ndarray:
        """float64 [B, count] in (0, 1)."""
        return ((self.bits(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53

    def distinct(self, limit: int, count: int) -> np.ndarray:
        """int64 [B, count] of 0 .. limit - 1, no number twice in a row: the beginning of a Fisher-Yates shuffle."""
        deck = np.empty((len(self.rows), limit), np.min_scalar_type(limit))  # small numbers, quickly laid out
        deck[:] = np.arange(limit)
        others = np.arange(count) + self.below(limit - np.arange(count), count)
        for place in range(count):
            other = others[:, place]
            taken = deck[self.rows, other]
            deck[self.rows, other] = deck[:, place]
            deck[:, place] = taken
        return deck[:, :count].astype(np.int64)
