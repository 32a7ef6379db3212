"""Batches of rows of about one length: which rows, in which order, and how many at once."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from txjax.config.data import Split

logger = logging.getLogger(__name__)

Widths = int | tuple[int, ...]  # how many to make, or those that training has


class InWidths(Protocol):
    """Rows of one or more widths."""

    @property
    def widths(self) -> tuple[int, ...]: ...
    @property
    def report(self) -> object: ...


T = TypeVar("T")
R = TypeVar("R", bound=InWidths)

STEP = 4  # widths are multiples of it
ENDLESS = 1 << 40  # batches of a training run, for grain, which wants a length


def widths_of(lengths: np.ndarray, count: int) -> np.ndarray:
    """At most `count` widths, the last of which holds the longest row, with the least padding that so many can have."""
    candidates = np.arange(STEP, -(-int(lengths.max()) // STEP) * STEP + 1, STEP)
    up_to = np.searchsorted(np.sort(lengths), candidates, side="right")  # rows that fit
    cost, chosen = candidates * up_to, [(int(width),) for width in candidates]  # of the rows that fit, in one bucket
    for _ in range(count - 1):
        # one more bucket: those that fit candidate i as before, those above it in the bucket of candidate j
        options = cost[:, None] + candidates * (up_to - up_to[:, None])
        options[np.tri(len(candidates), dtype=bool)] = cost.max() + 1
        best = options.argmin(0)
        better = options.min(0) < cost
        chosen = [
            (*chosen[i], int(width)) if won else old
            for i, width, won, old in zip(best, candidates, better, chosen, strict=True)
        ]
        cost = np.where(better, options.min(0), cost)
    return np.array(chosen[-1])


def fitting(lengths: np.ndarray, widths: Widths, context: int) -> tuple[int, ...]:
    """The widths that rows of these lengths, at most `context`, are padded to; `context` is added to given ones where
    a row is longer.
    """
    made = np.minimum(widths_of(lengths, widths), context) if isinstance(widths, int) else np.array(widths)
    return tuple(np.unique(np.append(made, context) if made[-1] < lengths.max() else made).tolist())


def in_widths_of_training(
    texts: Mapping[Split, T | None], buckets: int, rows: Callable[[T, Split, Widths], R]
) -> list[R | None]:
    """The rows of each split, train first, padded to the widths that training has; None where a split has no texts."""
    widths: Widths = buckets
    found: list[R | None] = []
    for split, items in texts.items():
        made = None if items is None else rows(items, split, widths)
        found.append(made)
        if made is not None:
            widths = made.widths if split == "train" else widths
            logger.info("%s: %s", split, made.report)
    return found


class Buckets(NamedTuple):
    """Rows of examples by their width: batches are made of rows of one bucket.

    filled: a batch of narrow rows has more of them, so that all batches are about as many positions; else each has
    batch_size rows, and one of narrow rows is less work.
    """

    rows: tuple[np.ndarray, ...]
    widths: tuple[int, ...]
    filled: bool

    @classmethod
    def of(cls, width: np.ndarray, *, filled: bool) -> Buckets:
        """width: int [R], of each row."""
        widths = np.unique(width)
        return cls(tuple(np.flatnonzero(width == one) for one in widths), tuple(widths.tolist()), filled)

    def batch_sizes(self, batch_size: int, context: int) -> list[int]:
        """Rows of a batch of each bucket. Of filled ones as many times batch_size as fit into batch_size x context
        positions, so that what divides a batch (devices, processes, accumulation) divides these too, and a run on
        other devices has the same batches.
        """
        return [batch_size * (max(context // width, 1) if self.filled else 1) for width in self.widths]


class BucketOrder:
    """Item k is the row numbers of batch k of an endless training, all of one bucket: a random-access source for grain.

    buckets: the rows of each bucket. sizes: rows of its batches. Each bucket's rows come in a new order each epoch, one
    epoch after the other, cut into batches; so a batch may hold the end of one and the beginning of the next, and no
    row is left out. In each epoch the batches of all buckets come in a random order of their own.
    """

    def __init__(
        self,
        buckets: Sequence[np.ndarray],
        sizes: Sequence[int],
        permutation: Callable[[int, int, int], np.ndarray],
    ) -> None:
        """permutation(stream, epoch, length): an order of `length` things."""
        self._buckets, self._sizes = buckets, np.array(sizes)
        self._rows = np.array([len(rows) for rows in buckets])
        self._permutation = functools.lru_cache(maxsize=4 * len(buckets) + 4)(permutation)

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> np.ndarray:
        epoch = self._epoch_of(int(index))
        done = self._batches_before(epoch)
        of_epoch = self._batches_before(epoch + 1) - done
        order = self._permutation(len(self._buckets), epoch, int(of_epoch.sum()))
        turn = order[: int(index) - int(done.sum()) + 1]
        bucket_of = np.repeat(np.arange(len(of_epoch)), of_epoch)
        bucket = int(bucket_of[turn[-1]])
        return self._batch(bucket, int(done[bucket] + (bucket_of[turn[:-1]] == bucket).sum()))

    def _batches_before(self, epoch: int) -> np.ndarray:
        """Whole batches that each bucket gives in so many epochs."""
        return epoch * self._rows // self._sizes

    def _epoch_of(self, index: int) -> int:
        epoch = int(index / (self._rows / self._sizes).sum())
        while self._batches_before(epoch).sum() > index:
            epoch -= 1
        while self._batches_before(epoch + 1).sum() <= index:
            epoch += 1
        return epoch

    def _batch(self, bucket: int, number: int) -> np.ndarray:
        size, count = int(self._sizes[bucket]), int(self._rows[bucket])
        epochs, places = np.divmod(np.arange(number * size, (number + 1) * size), count)
        chosen = [self._permutation(bucket, e, count)[places[epochs == e]] for e in np.unique(epochs).tolist()]
        return self._buckets[bucket][np.concatenate(chosen)]
