"""What is learned from: a source, and for text a tokenizer and the way tokens are cut into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from txjax.schema import Kind, Section, require

if TYPE_CHECKING:
    from txjax.config.model import Model
    from txjax.config.root import Config

Split = Literal["train", "validation", "test"]


class Source(Kind, home="txjax.data.sources"):
    """Where examples come from. unused: fields of the data section that it does not follow, and `whose` why.

    A bare word that is no kind's name is the name of a corpus that a kind knows, or a text
    source: a corpus, file or folder.
    """

    unused: ClassVar[tuple[str, ...]] = ()

    @property
    def whose(self) -> str:
        """What it has of its own, where something is not used."""
        return "whose rows are its own"

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        members = cls.members()
        if text in members:
            return members[text]()
        kind = next((kind for kind in members.values() if text in kind.named()), members["text"])
        return kind(name=text)  # type: ignore[call-arg]

    @classmethod
    def named(cls) -> Iterable[str]:
        """Names that stand for this kind with that `name`."""
        return ()

    @property
    def context(self) -> int | None:
        """Tokens in a sequence, where the source says it itself; None: the config does."""
        return None

    def validate(self, data: Data) -> None:
        """Refuse settings of the section that this source cannot follow: raise ConfigError."""
        if not self.unused:
            return
        plain = Data(context=self.context if data.context == self.context else None)
        for name in self.unused:
            value = getattr(data, name)
            require(
                value == getattr(plain, name),
                f"{name}={getattr(value, 'kind', value)} is not used where source={self.kind}, {self.whose}: leave "
                f"{name} out",
            )

    def judge(self, config: Config, codec: Any) -> None:
        """Refuse a model that cannot learn from this source as this codec reads it: raise ConfigError."""

    def codec(self, data: Data) -> Any:
        """The txjax.data.codec.Codec of its ids."""
        raise NotImplementedError

    def load(self, config: Config, saved: Any) -> Any:
        """Its txjax.data.dataset.Dataset; `saved` is the codec of a run, or None: see dataset.load."""
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

        Outside training each token counts once. Raises ConfigError where there is not enough text for one sequence.
        """
        raise NotImplementedError


class Objective(Kind, home="txjax.data.objectives"):
    """What a model reads of a row of text, and what of it it has to predict."""

    @property
    def specials(self) -> tuple[str, ...]:
        """The roles of the ids that it needs beside those of text: see txjax.data.codec.Codec."""
        return ()

    def room(self, context: int) -> int:
        """Tokens of text that a row is made of, where what the model reads is `context` tokens long."""
        return context

    def validate(self, model: Model) -> None:
        """Refuse a model that this objective cannot train: raise ConfigError."""

    def examples(self, rows: Any, codec: Any, split: Split, context: int) -> Any:
        """txjax.data.dataset.Examples made of txjax.data.sequences.Sequences of room(context) tokens."""
        raise NotImplementedError


@dataclass(frozen=True)
class Data(Section):
    """source: python (the interpreter's own documentation, always there), the name of a corpus, a path to a
        .txt or .jsonl file or a folder of them, or a task (docs/tasks.md), which leaves the other fields alone.
    objective: what is to be predicted of a text: the next token, or what was hidden of it.
    context: tokens in a sequence; none: model.context.
    validation: share of the text that is held out near its end, where the source has no split of its own.
    test: share that is held out at the very end, for one last evaluation; 0: none.
    held_out: sequences of validation and of test that are kept, spread evenly over them; none: all.
    shuffle: a new order of the sequences each epoch, by train.seed; off keeps the text's order.
    """

    source: Source = field(default_factory=lambda: Source.members()["text"]())
    tokenizer: Tokenizer = field(default_factory=lambda: Tokenizer.members()["bytes"]())
    chunking: Chunking = field(default_factory=lambda: Chunking.members()["concatenate"]())
    objective: Objective = field(default_factory=lambda: Objective.members()["causal"]())
    context: int | None = None
    validation: float = 0.1
    test: float = 0.0
    held_out: int | None = None
    shuffle: bool = True

    def check(self) -> None:
        require(self.context is None or self.context > 0, f"context must be at least 1 or none, got {self.context}")
        require(self.held_out is None or self.held_out > 0, f"held_out must be at least 1 or none, got {self.held_out}")
        require(0.0 < self.validation < 1.0, f"validation must be in (0, 1), got {self.validation}")
        require(
            0.0 <= self.test < 1.0 - self.validation,
            f"test must be 0, or a share that leaves some text beside validation={self.validation}, got {self.test}",
        )
        self.source.validate(self)
