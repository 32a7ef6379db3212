"""Objectives that draw what they hide: the rows of a text, made anew in each epoch."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self, get_args

import numpy as np

from txjax.config.data import Objective, Split
from txjax.config.model import Model
from txjax.data.codec import Codec
from txjax.data.draws import Draws, key_of
from txjax.data.sequences import PACKED, Sequences, entropy
from txjax.schema import require, to_dict

Arrays = dict[str, np.ndarray]
STREAM = 16  # of draws.key_of: that of the training split, after those of tasks
COUNTED = 1024  # rows from which the entropy of the targets is counted, where there are more
SHOWN = 256  # rows from which the report says how many targets a row has
TYPES = {"weights": np.float32}


class Rows(NamedTuple):
    """Rows of a split by their numbers, and how to read others of it. draws: what is drawn for each."""

    source: Sequences
    indices: np.ndarray
    draws: Draws
    codec: Codec
    context: int

    def read(self, *fields: str) -> list[np.ndarray]:
        """Arrays of the rows, [B, room]: see Sequences.read."""
        found = self.source.read(self.indices, fields)
        return [found[name] for name in fields]

    def special(self, role: str) -> int:
        return self.codec.specials[role]


class Drawn(Objective):
    """An objective with a random part, which is a function of train.seed, the epoch and the number of the row. Outside
    of training it is drawn once and for all: every run and every step is measured by the same.

    spells: whether the scored targets are the text itself, in order, so that bits per byte mean what they mean of a
    language model.
    """

    spells: ClassVar[bool] = False

    def fields(self, rows: Sequences) -> tuple[str, ...]:
        """The arrays that `make` gives."""
        raise NotImplementedError

    def make(self, rows: Rows) -> Arrays:
        """The arrays of a batch, as Batch names them. A row past the last has no text: all of it is padding."""
        raise NotImplementedError

    def judge(self, rows: Sequences) -> None:
        """Refuse rows that it cannot use: raise ConfigError."""

    def show(self, row: Arrays, codec: Codec) -> list[str]:
        """A row for people, from its arrays without the batch's axis."""
        scored = row["weights"] > 0
        written = codec.decode(row["targets"][scored])
        if "source" in row:
            return [f"reads  {codec.decode(row['source'][row['source_segments'] > 0])!r}", f"writes {written!r}"]
        read = row["tokens"] if "segments" not in row else row["tokens"][row["segments"] > 0]
        return [f"reads  {codec.decode(read)!r}", f"at {int(scored.sum())} places: {written!r}"]

    def examples(self, rows: Sequences, codec: Codec, split: Split, context: int) -> DrawnExamples:
        self.judge(rows)
        return DrawnExamples(self, rows, codec, split, context)


class Rewriting(Drawn):
    """An objective of a decoder over an encoder: the one reads a text with something amiss, the other writes."""

    def validate(self, model: Model) -> None:
        require(
            model.encoder is not None and model.causal,
            f"data.objective={self.kind} needs a decoder over an encoder: set model.encoder.num_layers and "
            "model.causal=True",
        )

    def judge(self, rows: Sequences) -> None:
        require_whole_rows(self, rows)

    def fields(self, rows: Sequences) -> tuple[str, ...]:
        return ("tokens", "targets", "weights", "segments", "source", "source_segments")


@dataclass(frozen=True)
class DrawnExamples:
    """A split under an objective that draws: Examples, see txjax.data.dataset. seed: of the run, in training alone."""

    objective: Drawn
    rows: Sequences
    codec: Codec
    split: Split
    context: int
    seed: int | None = None

    endless: ClassVar[bool] = False
    renewed: ClassVar[bool] = True
    buckets: ClassVar[None] = None

    @property
    def fields(self) -> tuple[str, ...]:
        return self.objective.fields(self.rows)

    @functools.cached_property
    def report(self) -> str:
        rows = self.gather(np.arange(min(len(self), SHOWN)))
        targets = float((rows["weights"] > 0).sum(1).mean())
        return (
            f"{self.rows.report.documents:,} documents -> {len(self):,} rows for {self.objective.kind}, "
            f"about {targets:.1f} targets each"
        )

    def __len__(self) -> int:
        return len(self.rows)

    def gather(self, indices: np.ndarray) -> Arrays:
        if self.seed is None:
            seed, numbers, indices = 0, indices, indices
        else:
            seed, numbers, indices = self.seed, indices, indices % len(self)
        draws = Draws(key_of(STREAM + get_args(Split).index(self.split), seed), numbers)
        made = self.objective.make(Rows(self.rows, indices, draws, self.codec, self.context))
        return {name: made[name].astype(TYPES.get(name, np.int32)) for name in self.fields}

    def for_seed(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def contents(self) -> Iterator[bytes | memoryview]:
        yield from self.rows.contents()
        yield json.dumps([to_dict(self.objective), self.split, self.seed, dict(self.codec.specials)]).encode()

    def target_bytes(self, codec: Codec) -> int:
        if not self.objective.spells:
            return 0
        return int(self._counts(len(self)) @ codec.byte_lengths())

    def target_entropy(self) -> float:
        return entropy(self._counts(COUNTED))

    def show(self, index: int, codec: Codec) -> list[str]:
        return self.objective.show({name: array[0] for name, array in self.gather(np.array([index])).items()}, codec)

    def _counts(self, most: int) -> np.ndarray:
        """How often each id is a scored target of at most so many rows, spread evenly; int64 [vocab_size]."""
        chosen = np.arange(min(most, len(self))) * len(self) // min(most, len(self))
        counts = np.zeros(self.codec.vocab_size, np.int64)
        for part in np.array_split(chosen, -(-len(chosen) // SHOWN)):
            rows = self.gather(part)
            counts += np.bincount(rows["targets"][rows["weights"] > 0], minlength=len(counts))
        return counts


def require_writer(objective: Objective, model: Model) -> None:
    """Refuse all but a decoder alone, whose tokens see those before them."""
    require(
        model.encoder is None,
        f"data.objective={objective.kind} gives an encoder nothing to read: set model.encoder=none, or "
        "data.objective=span_corruption or denoising",
    )
    require(
        model.causal,
        f"data.objective={objective.kind} with model.causal=False would let each token see the one that it has to "
        "predict: set model.causal=True, or data.objective=masked",
    )


def require_whole_rows(objective: Objective, rows: Sequences) -> None:
    """Refuse rows of several documents, and rows that overlap."""
    require(
        rows.fields != PACKED,
        f"data.objective={objective.kind} wants one stretch of text a row, and data.chunking packs documents: use "
        "data.chunking=truncate, sentence or concatenate",
    )
    require(
        not rows.spans[:, 2].any(),
        f"data.objective={objective.kind} would score a token of overlapping rows twice: use data.chunking=concatenate",
    )


def smallest(keys: np.ndarray, among: np.ndarray, count: np.ndarray) -> np.ndarray:
    """bool [B, N]: in each row the `count` [B] places with the smallest keys among those that are allowed."""
    order = np.argsort(np.where(among, keys, np.inf), 1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(keys.shape[1]), keys.shape), 1)
    return among & (rank < count[:, None])


def before(written: np.ndarray, start: int) -> np.ndarray:
    """What a decoder has read when it writes each of these, [B, T]: `start`, then all of them but the last."""
    return np.concatenate([np.full((len(written), 1), start), written[:, :-1]], 1)
