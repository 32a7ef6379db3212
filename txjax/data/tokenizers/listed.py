"""A vocabulary that is given and not learned: the one that somebody's weights came with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from txjax.config.data import Tokenizer
from txjax.data.codec import Codec
from txjax.schema import ConfigError, listed, nearest, require, to_dict


@dataclass(frozen=True)
class Listed(Tokenizer, kind="listed"):
    """The symbols of a list, whatever the training text holds; an id is a place in it.

    symbols: their names, those of the marks below among them.
    between: what stands between the symbols of a text: space, or nothing, where each is one character.
    begin, end: the marks around a text; what a decoder over an encoder writes stands between them too. pad: fills rows.
    unknown: stands for all that is not in the list. None: the list has no such mark.
    """

    symbols: tuple[str, ...] = ()
    between: Literal["space", "nothing"] = "space"
    begin: str | None = None
    end: str | None = None
    pad: str | None = None
    unknown: str | None = None

    def check(self) -> None:
        twice = sorted({name for name in self.symbols if self.symbols.count(name) > 1})
        require(not twice, f"symbols must differ from one another, got more than once: {listed(twice)}")
        for role in ("begin", "end", "pad", "unknown"):
            name = getattr(self, role)
            require(
                name is None or name in self.symbols,
                f"{role}={name!r} must be one of symbols{nearest(name, self.symbols)}",
            )
        if self.between == "nothing":
            long = [name for name in self.plain if len(name) != 1]
            require(not long, f"between=nothing needs symbols of one character, got {listed(long)}: use space")

    @property
    def plain(self) -> list[str]:
        """The symbols that a text may hold."""
        marks = {self.begin, self.end, self.pad, self.unknown}
        return [name for name in self.symbols if name not in marks]

    def build(self, documents: Iterable[str]) -> ListedCodec:
        require(bool(self.symbols), "data.tokenizer.listed.symbols is empty: give the vocabulary")
        return ListedCodec(self)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ListedCodec:
        return ListedCodec(cls(**state))


class ListedCodec(Codec):
    """See Listed."""

    kind = "listed"

    def __init__(self, vocabulary: Listed) -> None:
        self.vocabulary = vocabulary
        place = {name: number for number, name in enumerate(vocabulary.symbols)}
        self._ids = {name: place[name] for name in vocabulary.plain}
        self.pieces = [name.encode() for name in vocabulary.symbols]
        self.bos, self.separator, self._unknown = (
            None if name is None else place[name] for name in (vocabulary.begin, vocabulary.end, vocabulary.unknown)
        )
        self.begins = () if self.bos is None else (self.bos,)
        self.specials = {} if vocabulary.pad is None else {"pad": place[vocabulary.pad]}
        self._spaced = vocabulary.between == "space"

    def encode(self, text: str) -> np.ndarray:
        names = text.split() if self._spaced else text
        return np.array([self._id(name) for name in names], np.int32)

    def _id(self, name: str) -> int:
        number = self._ids.get(name, self._unknown)
        if number is None:
            raise ConfigError(
                f"{name!r} is not among the {len(self._ids)} symbols of the vocabulary, which has none for the unknown"
                f"{nearest(name, self._ids)}"
            )
        return number

    def piece(self, token: int, previous: int | None) -> bytes:
        first = previous is None or previous in (self.bos, self.separator) or token in (self.bos, self.separator)
        return self.pieces[token] if first or not self._spaced else b" " + self.pieces[token]

    def byte_lengths(self) -> np.ndarray:
        lengths = super().byte_lengths()
        return lengths + (lengths > 0) if self._spaced else lengths  # with the space before it

    def state(self) -> dict[str, Any]:
        return to_dict(self.vocabulary)["listed"]
