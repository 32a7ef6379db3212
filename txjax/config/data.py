"""What is learned from: a source of documents, a tokenizer, and the way tokens are cut into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from txjax.schema import Kind, Section, require

Split = Literal["train", "validation"]


class Source(Kind, home="txjax.data.sources"):
    """Where documents come from. A bare word that is no kind's name is a text source: a corpus, file or folder."""

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        members = cls.members()
        return members[text]() if text in members else members["text"](name=text)  # type: ignore[call-arg]

    def documents(self, split: Split, validation: float) -> Iterator[str]:
        """The documents of a split, in order. `validation` is the share held out where the source has no split."""
        raise NotImplementedError


class Tokenizer(Kind, home="txjax.data.tokenizers"):
    """The choice of a tokenizer: it makes the txjax.data.codec.Codec that turns text into ids and back."""

    def build(self, documents: Iterable[str]) -> Any:
        """The Codec, read from its files or trained on the training documents."""
        raise NotImplementedError

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Any:
        """The Codec that a run saved, from what its `state()` gave."""
        raise NotImplementedError


class Chunking(Kind, home="txjax.data.chunking"):
    """How documents of tokens become sequences of one length."""

    def chunk(self, documents: Any, context: int, split: Split) -> Any:
        """txjax.data.sequences.Sequences of `context` tokens from txjax.data.documents.Documents.

        In validation each token counts once. Raises ConfigError where there is not enough text for one sequence.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Data(Section):
    """source: python (the interpreter's own documentation, always there), the name of a corpus, or a path to a
        .txt or .jsonl file or a folder of them.
    context: tokens in a sequence; none: model.context.
    validation: share at the end of the text that is held out, where the source has no split of its own.
    shuffle: a new order of the sequences each epoch, by train.seed; off keeps the text's order.
    """

    source: Source = field(default_factory=lambda: Source.members()["text"]())
    tokenizer: Tokenizer = field(default_factory=lambda: Tokenizer.members()["bytes"]())
    chunking: Chunking = field(default_factory=lambda: Chunking.members()["concatenate"]())
    context: int | None = None
    validation: float = 0.1
    shuffle: bool = True

    def check(self) -> None:
        require(self.context is None or self.context > 0, f"context must be at least 1 or none, got {self.context}")
        require(0.0 < self.validation < 1.0, f"validation must be in (0, 1), got {self.validation}")
