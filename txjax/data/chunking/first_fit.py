"""First-fit packing: whole documents side by side in a sequence, apart from each other."""

from __future__ import annotations

import heapq
import logging
from dataclasses import dataclass

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.documents import Documents
from txjax.data.sequences import PACKED, Sequences, build, pieces

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FirstFit(Chunking, kind="first_fit"):
    """Each document goes into the first sequence that has room for it. Segments keep attention inside a document,
    positions begin anew, and no prediction crosses a seam: a document of n tokens takes n - 1 positions, its last
    token being only a target. A document longer than the context is divided, which the log says."""

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        parts: list[tuple[int, int]] = []
        divided = 0
        for start, stop in zip(documents.starts.tolist(), documents.stops.tolist(), strict=True):
            divided += stop - start > context + 1
            parts += pieces(start, stop, context)
        if divided:
            logger.warning(
                "%s: first_fit divided %d of %d documents, longer than %d tokens",
                split, divided, len(documents), context + 1,
            )  # fmt: skip
        spans = np.array([(start, stop, 0) for start, stop in parts], np.int64).reshape(-1, 3)
        homes = np.array(first_fit([stop - start - 1 for start, stop in parts], context), np.int64)
        order = np.argsort(homes, kind="stable")
        rows = np.concatenate([[0], np.cumsum(np.bincount(homes))]) if len(homes) else np.zeros(1, np.int64)
        return build(documents, spans[order], context, split=split, fields=PACKED, rows=rows)


def first_fit(sizes: list[int], capacity: int) -> list[int]:
    """For each item in turn the first bin with room for it, in time proportional to the items, not to the bins.

    sizes: between 1 and capacity.
    """
    bins_with_room: list[list[int]] = [[] for _ in range(capacity + 1)]  # heaps of bins, by the room left in them
    first = np.full(capacity + 1, np.iinfo(np.int64).max)  # the first bin of each heap
    homes: list[int] = []
    opened = 0
    for size in sizes:
        room = size + int(first[size:].argmin())
        if not bins_with_room[room]:
            heapq.heappush(bins_with_room[capacity], opened)
            room, opened = capacity, opened + 1
        home = heapq.heappop(bins_with_room[room])
        heapq.heappush(bins_with_room[room - size], home)
        for changed in (room, room - size):
            first[changed] = bins_with_room[changed][0] if bins_with_room[changed] else np.iinfo(np.int64).max
        homes.append(home)
    return homes
