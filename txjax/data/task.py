"""Sources that make their own examples, as many as are asked for: synthetic tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, get_args

import numpy as np

from txjax.config.data import Data, Source, Split
from txjax.data.codec import Codec, Symbols
from txjax.data.dataset import Dataset
from txjax.data.draws import Draws, key_of
from txjax.data.sequences import DTYPES, PLAIN
from txjax.schema import require, to_dict

if TYPE_CHECKING:
    from txjax.config.root import Config

ENDLESS = 1 << 40  # training examples, to any practical end


class Arrays(NamedTuple):
    """What a task makes, [B, T] each or to be broadcast to it: as Batch has it."""

    tokens: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Task(Source):
    """A task draws its examples as they are asked for. Those of training never end and depend on train.seed; those of
    validation and test are the same for every run. Ids, length and splits are its own: tokenizer, chunking and the
    other fields of the data section are not used, and refused where they are changed.

    held_out: examples of the validation split, and of the test split.
    """

    held_out: int = 1000

    unused: ClassVar = ("tokenizer", "chunking", "objective", "context", "validation", "test", "held_out", "shuffle")

    @property
    def whose(self) -> str:
        return f"a task with tokens, length ({self.context}) and splits of its own"

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each id."""
        raise NotImplementedError

    @property
    def context(self) -> int:
        """Tokens of an example."""
        raise NotImplementedError

    @property
    def answers(self) -> int:
        """How many values a target may have; over all examples each is as frequent as any other."""
        raise NotImplementedError

    def make(self, draws: Draws) -> Arrays:
        """The examples that these draws make."""
        raise NotImplementedError

    def check(self) -> None:
        require(self.held_out > 0, f"held_out must be at least 1, got {self.held_out}")

    def codec(self, data: Data) -> Symbols:
        return Symbols(self.names)

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        codec = self.codec(config.data)
        config.with_vocab(codec.vocab_size)
        return Dataset(codec, *(TaskExamples(self, split, seed=0) for split in get_args(Split)))

    def arrays(self, seed: int, split: Split, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The examples of a split by their numbers, [B, T]: a function of its arguments alone."""
        made = self.make(Draws(key_of(get_args(Split).index(split), seed), indices))
        shape = (len(indices), self.context)
        return {
            name: np.broadcast_to(array, shape).astype(DTYPES[name]) for name, array in zip(PLAIN, made, strict=True)
        }


@dataclass(frozen=True)
class TaskExamples:
    """A split of a task: Examples, see txjax.data.dataset. seed: of the run, in training."""

    task: Task
    split: Split
    seed: int

    fields = PLAIN
    renewed = False
    buckets = None

    @property
    def context(self) -> int:
        return self.task.context

    @property
    def endless(self) -> bool:
        return self.split == "train"

    @property
    def report(self) -> str:
        (targets,) = (self.gather(np.array([0]))["weights"] > 0).sum(1)
        count = "endless examples" if self.endless else f"{len(self):,} examples"
        return f"{count} of {self.task.kind}: {self.context} tokens, {targets} of them with a target"

    def __len__(self) -> int:
        return ENDLESS if self.endless else self.task.held_out

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        batch = self.task.arrays(self.seed, self.split, indices)
        batch["weights"][indices >= len(self)] = 0
        return batch

    def for_seed(self, seed: int) -> Self:
        return replace(self, seed=seed)

    def contents(self) -> Iterator[bytes]:
        yield json.dumps([to_dict(self.task), self.split, self.seed]).encode()

    def target_bytes(self, codec: Codec) -> int:
        return 0

    def target_entropy(self) -> float:
        return math.log(self.task.answers)

    def show(self, index: int, codec: Codec) -> list[str]:
        row = {name: array[0] for name, array in self.gather(np.array([index])).items()}
        scored = row["weights"] > 0
        return [codec.decode(row["tokens"]), f"at {_places(scored)}: {codec.decode(row['targets'][scored])}"]


def _places(scored: np.ndarray) -> str:
    places = np.flatnonzero(scored).tolist()
    return f"{places[0]}" if len(places) == 1 else f"{len(places)} places from {places[0]}"


def answered(question: np.ndarray, answer: np.ndarray) -> Arrays:
    """The answer, to be predicted token by token after the question."""
    sequences = np.concatenate([question, answer], 1)
    return Arrays(sequences[:, :-1], sequences[:, 1:], np.arange(1, sequences.shape[1]) >= question.shape[1])


def column(value: int, rows: int) -> np.ndarray:
    """A token that stands at one place of every example, [B, 1]."""
    return np.full((rows, 1), value)


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """Names of `count` ids: a0, a1, ..."""
    return tuple(f"{letter}{number}" for number in range(count))


def require_at_least(section: Any, least: int, *fields: str) -> None:
    for name in fields:
        value = getattr(section, name)
        require(value >= least, f"{name} must be at least {least}, got {value}")
