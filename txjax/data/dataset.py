"""What a config says to learn from, loaded: the data layer's entry, and what text and tasks have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from txjax.config.data import Split
from txjax.config.root import Config
from txjax.data.buckets import Buckets
from txjax.data.codec import Codec
from txjax.schema import ConfigError


class Examples(Protocol):
    """One split: rows of `context` tokens, found by their number.

    fields: the arrays of a row, as Batch names them. endless: len() is only a bound, and no row comes twice.
    renewed: what is made of a row is another in each epoch; in training the number of row i is then i + epoch len().
    buckets: which rows go together into batches, where rows differ in width; None: any. report: what the split holds,
    in a line.
    """

    @property
    def context(self) -> int: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    @property
    def endless(self) -> bool: ...
    @property
    def renewed(self) -> bool: ...
    @property
    def buckets(self) -> Buckets | None: ...
    @property
    def report(self) -> object: ...

    def __len__(self) -> int: ...

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """The arrays [B, T] of several rows; an index past the last gives a row of weight 0."""
        ...

    def for_seed(self, seed: int) -> Self:
        """What a run of this train.seed learns from: the same text for all, a task's examples for each its own."""
        ...

    def contents(self) -> Iterable[bytes | memoryview]:
        """Bytes that differ where the rows do."""
        ...

    def target_bytes(self, codec: Codec) -> int:
        """Bytes of text that all scored targets stand for together, 0 where they are no text."""
        ...

    def target_entropy(self) -> float:
        """Entropy of the scored targets in nats: the loss of a predictor that knows only how often each occurs."""
        ...

    def show(self, index: int, codec: Codec) -> list[str]:
        """A row for people: each of its documents a line, or what is read and what is predicted."""
        ...


@dataclass(frozen=True)
class Dataset:
    """A codec and the splits. test: None where the source has none and `data.test` is 0."""

    codec: Codec
    train: Examples
    validation: Examples
    test: Examples | None

    def split(self, name: Split) -> Examples:
        """A split by its name; ConfigError where it is the test and there is none."""
        found = {"train": self.train, "validation": self.validation, "test": self.test}[name]
        if found is None:
            raise ConfigError("data.source has no test split: hold a share of the text out by data.test, such as 0.05")
        return found

    def trivial_loss(self) -> float:
        """The loss in nats of the best predictor that reads nothing: what a run that learned nothing comes to."""
        return self.train.target_entropy()


def load(config: Config, saved: Codec | None = None) -> Dataset:
    """The splits that `config.data` describes.

    saved: the codec of a run; none: the source makes it, for text by training `data.tokenizer` on the training text.
    Raises ConfigError where a file cannot be used, a split is shorter than a sequence, an id is outside the vocabulary
    of the tokenizer or of the model, or the model is not one that could learn from it.
    """
    found = config.data.source.load(config, saved)
    config.data.source.judge(config, found.codec)
    return found
