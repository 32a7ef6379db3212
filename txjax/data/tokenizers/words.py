"""Words between white space as tokens: for text that has been cut already, by somebody's byte-pair encoding say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txjax.config.data import Tokenizer
from txjax.data.codec import END_OF_TEXT, Codec
from txjax.schema import require

UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Words(Tokenizer, kind="words"):
    """The distinct words of the training documents, the most frequent first, after an end of text (id 0) and a word for
    all others (id 1).

    least: times that a word must occur. continuation: how a word ends that the next one goes on with, @@ as Sennrich et
    al. 2016's code writes it: in decoded text both are joined.
    """

    least: int = 1
    continuation: str = "@@"

    def check(self) -> None:
        require(self.least > 0, f"least must be at least 1, got {self.least}")

    def build(self, documents: Iterable[str]) -> WordsCodec:
        counts = Counter(word for text in documents for word in text.split())
        kept = (word for word, count in counts.items() if count >= self.least)
        return WordsCodec(sorted(kept, key=lambda word: (-counts[word], word)), self.continuation)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> WordsCodec:
        return WordsCodec(state["words"], state["continuation"])


class WordsCodec(Codec):
    """See Words."""

    kind = "words"
    separator = 0

    def __init__(self, words: Sequence[str], continuation: str) -> None:
        self.words, self.continuation = list(words), continuation
        names = [END_OF_TEXT, UNKNOWN, *self.words]
        self._ids = {name: number for number, name in enumerate(names) if number}
        self._open = [bool(continuation) and name.endswith(continuation) for name in names]
        self.pieces = [
            (name.removesuffix(continuation) if cut else name).encode()
            for name, cut in zip(names, self._open, strict=True)
        ]

    def encode(self, text: str) -> np.ndarray:
        unknown = self._ids[UNKNOWN]
        return np.array([self._ids.get(word, unknown) for word in text.split()], np.int32)

    def piece(self, token: int, previous: int | None) -> bytes:
        first = previous is None or previous == self.separator or self._open[previous]
        return self.pieces[token] if first or token == self.separator else b" " + self.pieces[token]

    def byte_lengths(self) -> np.ndarray:
        joined = np.array([not cut for cut in self._open], np.int64)  # the space after it
        return np.where(np.arange(len(joined)) == self.separator, 0, super().byte_lengths() + joined)

    def state(self) -> dict[str, Any]:
        return {"words": self.words, "continuation": self.continuation}
