"""Batches from examples: endless for training, those of text shuffled, once and in order for evaluation.

Processes are given by index and count, so that a test can play several: global batch k is the same whatever their
number, and each process reads only its own rows of it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import grain
import numpy as np

from txjax.batch import Batch
from txjax.data.buckets import ENDLESS, BucketOrder
from txjax.data.dataset import Examples
from txjax.schema import require


class TrainBatches:
    """An endless iterator of the Batches [B / processes, T] of one process, NumPy arrays.

    Each epoch goes through all examples, in an order of its own if they are shuffled; a batch may hold the end of one
    epoch and the beginning of the next. Endless examples come in order and once. Batch k depends on the arguments
    alone, and is found without the ones before.
    """

    def __init__(
        self,
        examples: Examples,
        *,
        batch_size: int,
        seed: int,
        shuffle: bool,
        process_index: int,
        process_count: int,
    ) -> None:
        _own_rows(batch_size, process_index, process_count)  # refused before the first batch
        examples = examples.for_seed(seed)
        self.fingerprint = fingerprint(examples, batch_size=batch_size, seed=seed, shuffle=shuffle)
        order = grain.MapDataset.source(_order(examples, batch_size, seed, shuffle))

        def batch(indices: np.ndarray) -> Batch:
            return Batch(**examples.gather(indices[_own_rows(len(indices), process_index, process_count)]))

        batches = order.map(batch)
        in_this_thread = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)  # a batch takes microseconds
        self._iterator = iter(batches.to_iter_dataset(in_this_thread))

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._iterator)

    def get_state(self) -> dict[str, Any]:
        """Where the iterator stands, for JSON: to be saved with the step that its last batch was used for."""
        return {"fingerprint": self.fingerprint, "iterator": self._iterator.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Go to where `state` was taken, whatever came since; ConfigError where it is from other data."""
        require(
            state["fingerprint"] == self.fingerprint,
            f"data: the run to resume was trained on other data (fingerprint {state['fingerprint']}, here "
            f"{self.fingerprint}): source, tokenizer, chunking, context, batch size, seed and shuffle must be the same",
        )
        self._iterator.set_state(state["iterator"])


def evaluation_batches(
    examples: Examples, *, batch_size: int, process_index: int, process_count: int
) -> Iterator[Batch]:
    """The Batches of one process that hold every example once, in order.

    The last one is filled up with padding of weight 0, so that every batch has one shape and every process the same
    number of them.
    """
    rows = _own_rows(batch_size, process_index, process_count)
    starts = range(0, len(examples), batch_size)
    return (Batch(**examples.gather(np.arange(start, start + batch_size)[rows])) for start in starts)


def fingerprint(examples: Examples, *, batch_size: int, seed: int, shuffle: bool) -> str:
    """Sixteen hexadecimal digits that name what training reads, and in which order."""
    settings = [examples.context, examples.fields, batch_size, seed, shuffle]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for content in examples.contents():
        digest.update(content)
    return digest.hexdigest()[:16]


def _order(examples: Examples, batch_size: int, seed: int, shuffle: bool) -> Any:
    if examples.buckets is None:
        shuffle = shuffle and not examples.endless
        return _EpochOrder(len(examples), batch_size, seed, shuffle, count_on=examples.renewed)

    def permutation(stream: int, epoch: int, length: int) -> np.ndarray:
        return _permutation([seed & (1 << 64) - 1, stream, epoch], length) if shuffle else np.arange(length)

    sizes = examples.buckets.batch_sizes(batch_size, examples.context)
    return BucketOrder(examples.buckets.rows, sizes, permutation)


def _permutation(entropy: list[int], length: int) -> np.ndarray:
    """By sorting a bit generator's raw stream, which NumPy promises never to change."""
    return np.argsort(np.random.Philox(np.random.SeedSequence(entropy)).random_raw(length), kind="stable")


class _EpochOrder:
    """Item k is the indices of the k-th batch of endless epochs: a random-access source for grain.

    count_on: the numbers of an epoch begin after those of the one before.
    grain's own shuffle takes milliseconds an item where there are few items; this one is a table of one epoch.
    """

    def __init__(self, length: int, batch_size: int, seed: int, shuffle: bool, *, count_on: bool) -> None:
        self._length, self._batch_size, self._seed, self._shuffle = length, batch_size, seed, shuffle
        self._count_on = count_on
        self._permutation = functools.lru_cache(maxsize=2)(self._new_permutation)

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: Any) -> np.ndarray:
        start = int(index) * self._batch_size
        epochs, places = np.divmod(np.arange(start, start + self._batch_size), self._length)
        if self._shuffle:
            places = np.concatenate(
                [self._permutation(epoch)[places[epochs == epoch]] for epoch in np.unique(epochs).tolist()]
            )
        return places + epochs * self._length if self._count_on else places

    def _new_permutation(self, epoch: int) -> np.ndarray:
        return _permutation([self._seed & (1 << 64) - 1, epoch], self._length)


def _own_rows(batch_size: int, process_index: int, process_count: int) -> slice:
    """The rows of a global batch that belong to a process."""
    require(
        batch_size % process_count == 0,
        f"train.batch_size={batch_size} cannot be divided among {process_count} processes: choose a multiple of "
        f"{process_count}",
    )
    share = batch_size // process_count
    return slice(process_index * share, (process_index + 1) * share)
