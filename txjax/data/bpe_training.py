"""The learning of byte-pair merges. Sennrich et al. 2016.

The trainer of the tokenizers library breaks ties between equally frequent pairs by the ids of their tokens, and so
misses the public reference that the tests hold this against. Here a tie goes to the pair whose bytes are greatest, as
in that reference.
"""

from __future__ import annotations

import heapq
from array import array
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
    """Where each pair of neighbours occurs, and how often, while they are merged.

    The words lie one after the other, one place a byte. A merge looks at the places of its pair alone and at their
    neighbours, so that all merges together take time linear in the text, however long its words are: Chinese, say,
    has no spaces.
    """

    def __init__(self, words: Counter[str]) -> None:
        self._tokens: list[str] = []  # at a token's first byte; "" at its others, and behind each word
        self._first = array("l")  # at a token's last byte: the place of its first
        self._times = array("l")
        self._counts: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, array[int]] = defaultdict(lambda: array("l"))  # may name places that lost it
        self._heap: list[tuple[int, _Order, _Order, Pair]] = []  # may hold old counts
        self._orders: dict[str, _Order] = {}
        for word, times in words.items():
            for place, pair in enumerate(pairwise(word), len(self._tokens)):
                self._add(pair, place, times)
            self._tokens += [*word, ""]
            self._times.extend([times] * (len(word) + 1))
        self._first.extend(range(len(self._tokens)))
        self._push(self._counts)

    def most_frequent(self) -> Pair | None:
        """The pair that occurs most often, of several the one with the greatest bytes."""
        while self._heap:
            count, _, _, pair = heapq.heappop(self._heap)
            if self._counts[pair] == -count:
                return pair
            self._push([pair])
        return None

    def merge(self, pair: Pair) -> None:
        """Make each occurrence of the pair, in a word from the left, one token."""
        tokens, (left, right), both = self._tokens, pair, "".join(pair)
        grown: set[Pair] = set()
        for place in sorted(self._places.pop(pair)):
            middle, end = place + len(left), place + len(both)
            if tokens[place] != left or tokens[middle] != right:
                continue
            times, at_before = self._times[place], self._first[place - 1]
            before, after = tokens[at_before], tokens[end]
            tokens[place], tokens[middle], self._first[end - 1] = both, "", place
            if before:
                self._counts[before, left] -= times
                grown.add(self._add((before, both), at_before, times))
            if after:
                self._counts[right, after] -= times
                grown.add(self._add((both, after), place, times))
        del self._counts[pair]
        self._push(grown)

    def _add(self, pair: Pair, place: int, times: int) -> Pair:
        self._counts[pair] += times
        self._places[pair].append(place)
        return pair

    def _push(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            if self._counts[pair] > 0:
                heapq.heappush(self._heap, (-self._counts[pair], self._order(pair[0]), self._order(pair[1]), pair))

    def _order(self, token: str) -> _Order:
        """A key that is smaller the greater the token's bytes are; a longer token comes before its own beginning."""
        if token not in self._orders:
            self._orders[token] = (*(-BYTE_OF[c] for c in token), 1)
        return self._orders[token]
