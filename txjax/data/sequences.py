"""Sequences of one length over a flat array of tokens: every chunking makes them, batches are gathered from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from txjax.data.buckets import Buckets
from txjax.data.codec import Codec
from txjax.data.documents import Documents
from txjax.schema import ConfigError

DTYPES = {"tokens": np.int32, "targets": np.int32, "weights": np.float32, "positions": np.int32, "segments": np.int32}
PLAIN = ("tokens", "targets", "weights")
PADDED = (*PLAIN, "segments")  # rows that end early: segments tell text, 1, from padding, 0
PACKED = (*PLAIN, "segments", "positions")  # rows of several documents


@dataclass(frozen=True)
class Report:
    """What a chunking made of a split.

    tokens: positions of the sequences that hold text; targets: those that are scored, each predicting the token after.
    dropped: tokens of the text that no sequence predicts although they follow another in their document.
    """

    documents: int
    sequences: int
    context: int
    tokens: int
    targets: int
    dropped: int

    @property
    def real_share(self) -> float:
        """Share of the positions that hold text, not padding."""
        return self.tokens / (self.sequences * self.context)

    def __str__(self) -> str:
        return (
            f"{self.documents:,} documents -> {self.sequences:,} sequences of {self.context}: {self.tokens:,} tokens, "
            f"{self.real_share:.1%} of the positions; {self.targets:,} targets, {self.dropped:,} dropped"
        )


class Sequences:
    """Rows of `context` tokens, each a list of spans of one flat array; nothing is copied before a row is read.
    They are the Examples (txjax.data.dataset) of text.

    spans: int64 [M, 3] of (start, stop, skip): a span reads tokens[start : stop - 1] and predicts
        tokens[start + 1 : stop]; its first `skip` predictions have weight 0.
    rows: int64 [R + 1]: row i holds the spans rows[i] to rows[i + 1]; none: one span a row.
    fields: the arrays of a row, among DTYPES; positions begin at 0 and segments at 1, anew in each span.
    """

    endless = renewed = False
    buckets: Buckets | None = None

    def __init__(
        self,
        tokens: np.ndarray,
        spans: np.ndarray,
        context: int,
        *,
        rows: np.ndarray | None = None,
        fields: tuple[str, ...],
        report: Report,
    ) -> None:
        self.tokens, self.spans, self.context, self.fields, self.report = tokens, spans, context, fields, report
        self.rows = np.arange(len(spans) + 1) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows) - 1

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        if not 0 <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        return {name: array[0] for name, array in self.gather(np.array([index])).items()}

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays [B, T] of several sequences; an index past the last gives a row of padding, weight 0."""
        return self.read(indices, self.fields)

    def read(self, indices: np.ndarray, fields: Iterable[str]) -> dict[str, np.ndarray]:
        """Any of the arrays in DTYPES, as gather gives them."""
        first = self.rows[np.minimum(indices, len(self))]
        counts = self.rows[np.minimum(indices + 1, len(self))] - first  # spans of each row
        row, number = _ragged(counts)
        start, stop, skip = self.spans[first[row] + number].T
        span, position = _ragged(stop - start - 1)
        place = _before(stop - start - 1)
        place = place - place[_before(counts)[row]]  # where each span begins in its row
        target = (row * self.context + place)[span] + position
        read = start[span] + position
        values = {
            "tokens": self.tokens[read],
            "targets": self.tokens[read + 1],
            "weights": position >= skip[span],
            "positions": position,
            "segments": number[span] + 1,
        }
        batch = {name: np.zeros((len(indices), self.context), DTYPES[name]) for name in fields}
        for name, array in batch.items():
            array.reshape(-1)[target] = values[name]
        return batch

    def thinned(self, count: int) -> Sequences:
        """`count` of the rows, spread evenly; all of them where there are fewer."""
        if count >= len(self):
            return self
        chosen = np.arange(count) * len(self) // count
        counts = self.rows[chosen + 1] - self.rows[chosen]
        row, number = _ragged(counts)
        spans = self.spans[self.rows[chosen][row] + number]
        tokens, skipped = int((spans[:, 1] - spans[:, 0] - 1).sum()), int(spans[:, 2].sum())
        report = replace(
            self.report,
            sequences=count,
            tokens=tokens,
            targets=tokens - skipped,
            dropped=self.report.dropped + self.report.targets - (tokens - skipped),
        )
        rows = np.concatenate([[0], np.cumsum(counts)])
        return Sequences(self.tokens, spans, self.context, rows=rows, fields=self.fields, report=report)

    def target_bytes(self, codec: Codec) -> int:
        """What turns a summed loss into bits per byte."""
        before = np.concatenate([[0], np.cumsum(codec.byte_lengths()[self.tokens])])
        starts, stops, skips = self.spans.T
        return int((before[stops] - before[starts + 1 + skips]).sum())

    def target_entropy(self) -> float:
        starts, stops, skips = self.spans.T
        edges = np.zeros(len(self.tokens) + 1, np.int64)
        np.add.at(edges, starts + 1 + skips, 1)
        np.add.at(edges, stops, -1)
        scored = np.cumsum(edges)[:-1]  # how often each token is a target
        return entropy(np.bincount(self.tokens, weights=scored))

    def for_seed(self, seed: int) -> Self:
        return self

    def contents(self) -> Iterator[memoryview]:
        return (np.ascontiguousarray(array).data for array in (self.tokens, self.spans, self.rows))

    def show(self, index: int, codec: Codec) -> list[str]:
        spans = self.spans[self.rows[index] : self.rows[index + 1]]
        return [repr(codec.decode(self.tokens[start : stop - 1])) for start, stop, _ in spans]


def entropy(counts: np.ndarray) -> float:
    """In nats, of things that occur so often."""
    shares = counts[counts > 0] / max(counts.sum(), 1)
    return float(-(shares * np.log(shares)).sum())


def _before(lengths: np.ndarray) -> np.ndarray:
    """The sum of all lengths before each."""
    return np.cumsum(lengths) - lengths


def _ragged(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For lists of these lengths laid end to end, the list of each item and its place in it."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, np.arange(len(owner)) - _before(lengths)[owner]


def build(
    documents: Documents,
    spans: np.ndarray,
    context: int,
    *,
    split: str,
    fields: tuple[str, ...],
    rows: np.ndarray | None = None,
    dropped: int = 0,
) -> Sequences:
    """Sequences with their report; ConfigError where the split gave not one."""
    count = len(spans) if rows is None else len(rows) - 1
    if not count:
        raise ConfigError(
            f"data.source: no document of the {split} split has the 2 tokens that a prediction needs, of "
            f"{len(documents.tokens)} tokens in all: choose a longer text"
        )
    tokens = int((spans[:, 1] - spans[:, 0] - 1).sum())
    targets = tokens - int(spans[:, 2].sum())
    report = Report(len(documents), count, context, tokens, targets, dropped)
    return Sequences(documents.tokens, spans, context, rows=rows, fields=fields, report=report)


def require_one_sequence(documents: Documents, context: int, split: str) -> None:
    """Refuse a split too short for one full sequence and the token after it."""
    if len(documents.tokens) < context + 1:
        raise ConfigError(
            f"data.source: the {split} split has {len(documents.tokens)} tokens, but data.context={context} needs "
            f"{context + 1}: choose a smaller context or a longer text"
        )


def pieces(start: int, stop: int, context: int) -> list[tuple[int, int]]:
    """A stretch of tokens in pieces of `context` predictions; neighbours share one token, so that none is lost."""
    return [(at, min(at + context + 1, stop)) for at in range(start, stop - 1, context)]
