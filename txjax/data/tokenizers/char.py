"""Characters as tokens: a vocabulary of those that the training text holds."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from txjax.config.data import Tokenizer
from txjax.data.codec import END_OF_TEXT, Codec
from txjax.schema import ConfigError


@dataclass(frozen=True)
class Char(Tokenizer, kind="char"):
    """The distinct characters of the training documents, sorted; where there are several documents, the end of a
    text has an id too, the last."""

    def build(self, documents: Iterable[str]) -> CharCodec:
        seen: set[str] = set()
        count = 0
        for text in documents:
            seen.update(text)
            count += 1
        return CharCodec("".join(sorted(seen)), separated=count > 1)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> CharCodec:
        return CharCodec(state["characters"], separated=state["separated"])


class CharCodec(Codec):
    """See Char."""

    kind = "char"

    def __init__(self, characters: str, *, separated: bool) -> None:
        self.characters = characters
        self._points = _code_points(characters)
        self.pieces = [c.encode("utf-8") for c in characters] + [END_OF_TEXT.encode()] * separated
        self.separator = len(characters) if separated else None

    def encode(self, text: str) -> np.ndarray:
        points = _code_points(text)
        ids = np.searchsorted(self._points, points)
        known = np.append(self._points, 0)[ids] == points if len(self._points) else np.zeros(len(points), bool)
        if not known.all():
            place = int(np.argmin(known))
            raise ConfigError(
                f"character {text[place]!r} ({unicodedata.name(text[place], 'unnamed')}, after {place:,} others) is "
                f"not among the {len(self.characters)} of the training text: use data.tokenizer=bytes or bpe"
            )
        return ids.astype(np.int32)

    def state(self) -> dict[str, Any]:
        return {"characters": self.characters, "separated": self.separator is not None}


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
