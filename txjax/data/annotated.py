"""Texts that somebody has said something about: a class of each text, or of each token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Self, TypeVar

import numpy as np

from txjax.config.data import Data, Split
from txjax.config.model import Model
from txjax.data.buckets import Buckets, Widths, fitting
from txjax.data.codec import Codec
from txjax.data.sequences import entropy
from txjax.schema import ConfigError, nearest, require

T = TypeVar("T")


class Annotated:
    """A split of rows with the classes of them or of their tokens: Examples, see txjax.data.dataset.

    rows: the ids of each, at most `context`. targets: [R], a class of each row; or one list a row, a class of each of
    its tokens, -1 where there is none to be predicted. classes: their names. shortened: rows that were cut.
    widths: what rows are padded to, or how many widths to make; with one, to `context`; with more the narrow rows come
    first.
    """

    endless = renewed = False
    fields = ("tokens", "targets", "weights", "segments")

    def __init__(
        self,
        rows: Sequence[np.ndarray],
        targets: np.ndarray | Sequence[np.ndarray],
        context: int,
        classes: tuple[str, ...],
        *,
        shortened: int,
        widths: Widths = 1,
    ) -> None:
        self.context, self.classes, self.shortened = context, classes, shortened
        lengths = np.array([len(row) for row in rows], np.int64)
        self.widths = (context,) if widths == 1 else fitting(lengths, widths, context)
        width = np.array(self.widths)[np.searchsorted(self.widths, lengths)]
        order = np.argsort(width, kind="stable")
        self.width, lengths = width[order], lengths[order]
        self.of_tokens = not isinstance(targets, np.ndarray)
        flat = targets[order] if isinstance(targets, np.ndarray) else _joined(targets, order)
        self.targets = flat.astype(np.int32)
        self.tokens = _joined(rows, order).astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])

    @property
    def buckets(self) -> Buckets | None:
        return Buckets.of(self.width, filled=False) if len(self.widths) > 1 else None

    @property
    def report(self) -> str:
        what = "tags of tokens" if self.of_tokens else "classes"
        return (
            f"{len(self):,} rows of at most {self.context} tokens, {self.shortened:,} of them cut short; "
            f"{int((self.targets >= 0).sum()):,} targets in {len(self.classes)} {what}; "
            f"{len(self.tokens) / int(self.width.sum()):.1%} of the positions, in rows of "
            f"{', '.join(map(str, self.widths))}"
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Rows as wide as the widest of them."""
        width = int(self.width[np.minimum(indices, len(self) - 1)].max())
        first = self.starts[np.minimum(indices, len(self))]
        length = self.starts[np.minimum(indices + 1, len(self))] - first
        real = np.arange(width) < length[:, None]
        places = np.where(real, first[:, None] + np.arange(width), 0)
        if self.of_tokens:
            targets = np.where(real, self.targets[places], -1)
        else:
            targets = np.where(length > 0, self.targets[np.minimum(indices, len(self) - 1)], -1)[:, None]
        return {
            "tokens": np.where(real, self.tokens[places], 0).astype(np.int32),
            "targets": np.maximum(targets, 0).astype(np.int32),
            "weights": (targets >= 0).astype(np.float32),
            "segments": real.astype(np.int32),
        }

    def for_seed(self, seed: int) -> Self:
        return self

    def contents(self) -> Iterator[bytes | memoryview]:
        yield from (np.ascontiguousarray(array).data for array in (self.tokens, self.starts, self.targets))
        yield "\n".join(self.classes).encode()
        if self.widths != (self.context,):
            yield np.ascontiguousarray(self.width).data

    def target_bytes(self, codec: Codec) -> int:
        return 0

    def target_entropy(self) -> float:
        return entropy(np.bincount(self.targets[self.targets >= 0]))

    def show(self, index: int, codec: Codec) -> list[str]:
        start, stop = self.starts[index : index + 2]
        tokens = self.tokens[start:stop]
        if not self.of_tokens:
            return [f"{self.classes[self.targets[index]]}: {codec.decode(tokens)!r}"]
        runs = groupby(zip(self.targets[start:stop].tolist(), tokens.tolist(), strict=True), key=lambda pair: pair[0])
        spelt = ((tag, codec.decode(token for _, token in run)) for tag, run in runs)
        return [" ".join(f"{self.classes[tag]}:{text!r}" if tag >= 0 else repr(text) for tag, text in spelt)]


def _joined(rows: Sequence[np.ndarray], order: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int32), *(rows[i] for i in order)])


def require_outputs(model: Model, classes: Sequence[str], *, one_a_row: bool) -> None:
    """Refuse a head that does not tell just these classes, of each row or of each token."""
    require(model.encoder is None, "data.source gives an encoder of its own nothing to read: set model.encoder=none")
    head, count = model.head, len(classes)
    require(
        getattr(head, "outputs", None) == count,
        f"the data has {count} classes ({', '.join(classes[:8])}{', ...' if count > 8 else ''}): set model.head to "
        f"{'classes' if one_a_row else 'linear'} with outputs={count}, got model.head={head.kind} with "
        f"outputs={getattr(head, 'outputs', None)}",
    )
    pools = head.kind == "classes"
    require(
        pools == one_a_row,
        f"the data has a class for each {'row' if one_a_row else 'token'}, and model.head={head.kind} makes logits of "
        f"each {'row' if pools else 'token'}: use model.head={'classes' if one_a_row else 'linear'}",
    )


def classes_of(labels: Sequence[str], known: Sequence[str], split: Split) -> np.ndarray:
    """The number of each label among the known ones; ConfigError for another one."""
    number = {name: index for index, name in enumerate(known)}
    for label, times in Counter(labels).items():
        if label not in number:
            raise ConfigError(
                f"data.source: {times} texts of the {split} split have the class {label!r}, which no text of training "
                f"has{nearest(label, known)}"
            )
    return np.array([number[label] for label in labels], np.int32)


def splits(
    own: dict[Split, list[T] | None], whole: list[T] | None, data: Data, *, shuffled: bool
) -> dict[Split, list[T] | None]:
    """Every split: those that the data has itself, and else the parts of the whole by data.validation and data.test; of
    data with a training split alone, or with training and test, training gives up its part for validation.
    shuffled: cut in an order by chance that never changes, for files that are sorted by class.
    ConfigError where a split is empty.
    """
    found = dict(own)
    train, test = (whole, data.test) if whole is not None else (own["train"] or [], 0.0)
    if whole is not None or own["validation"] is None:
        found["train"], found["validation"], rest = _cut(train, data.validation, test, shuffled=shuffled)
        found["test"] = rest if whole is not None and test else own["test"]
    for split, items in found.items():
        require(
            items is None or len(items) > 0,
            f"data.source leaves the {split} split nothing of {len(train)} texts: set data.validation and data.test",
        )
    return found


def _cut(items: list[T], validation: float, test: float, *, shuffled: bool) -> list[list[T]]:
    """Train, validation and test."""
    order = np.arange(len(items))
    if shuffled:
        order = np.argsort(np.random.Philox(np.random.SeedSequence(0)).random_raw(len(items)), kind="stable")
    cuts = [int(len(items) * (1.0 - (validation + test))), int(len(items) * (1.0 - test))]
    return [[items[i] for i in part.tolist()] for part in np.split(order, cuts)]


def thinned(items: Sequence[T], count: int | None) -> list[T]:
    """At most `count` of the items, spread evenly."""
    if count is None or count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
