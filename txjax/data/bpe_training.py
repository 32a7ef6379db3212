"""The learning of byte-pair merges. Sennrich et al. 2016.

The trainer of the tokenizers library breaks ties between equally frequent pairs by the ids of their tokens, and so
misses the public reference that the tests hold this against. Here a tie goes to the pair whose bytes are greatest, as
in that reference.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

from txjax.data.tokenizers.byte_level import BYTE_OF

Pair = tuple[str, str]
_Order = tuple[int, ...]


def train(words: Iterable[str], num_merges: int) -> list[Pair]:
    """At most `num_merges` merges, the most frequent pair first; fewer where no pair is left.

    words: in the byte alphabet, repeated as often as they occur; no merge crosses a word's end.
    """
    index = _PairIndex(Counter(words))
    merges: list[Pair] = []
    while len(merges) < num_merges and (pair := index.most_frequent()) is not None:
        merges.append(pair)
        index.merge(pair)
    return merges


class _PairIndex:
    """How often each pair of neighbours occurs, and in which words, while they are merged."""

    def __init__(self, words: Counter[str]) -> None:
        self._words = [list(word) for word in words]
        self._times = list(words.values())
        self._counts: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)  # may name words that have lost the pair
        self._heap: list[tuple[int, _Order, _Order, Pair]] = []  # may hold old counts
        self._orders: dict[str, _Order] = {}
        for place, tokens in enumerate(self._words):
            self._add(place, tokens)
        self._push(self._counts)

    def most_frequent(self) -> Pair | None:
        """The pair that occurs most often, of several the one with the greatest bytes."""
        while self._heap:
            count, _, _, pair = heapq.heappop(self._heap)
            if self._counts[pair] == -count:
                return pair
            if self._counts[pair] > 0:
                self._push([pair])
        return None

    def merge(self, pair: Pair) -> None:
        """Make each occurrence of the pair one token."""
        changed: set[Pair] = set()
        for place in self._places.pop(pair):
            old = self._words[place]
            new = self._words[place] = _merged(old, pair)
            for lost in pairwise(old):
                self._counts[lost] -= self._times[place]
            self._add(place, new)
            changed.update(pairwise(new))
        self._push(changed)

    def _add(self, place: int, tokens: list[str]) -> None:
        for pair in pairwise(tokens):
            self._counts[pair] += self._times[place]
            self._places[pair].add(place)

    def _push(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            heapq.heappush(self._heap, (-self._counts[pair], self._order(pair[0]), self._order(pair[1]), pair))

    def _order(self, token: str) -> _Order:
        """A key that is smaller the greater the token's bytes are; a longer token comes before its own beginning."""
        if token not in self._orders:
            self._orders[token] = (*(-BYTE_OF[c] for c in token), 1)
        return self._orders[token]


def _merged(tokens: list[str], pair: Pair) -> list[str]:
    """The tokens with each occurrence of the pair, from the left, made one."""
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return merged
