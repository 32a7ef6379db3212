"""Byte-level byte-pair encoding, as GPT-2 has it: what the trained tokenizer and GPT-2's own share.

A text is cut into words by GPT-2's pattern (a space belongs to the word after it); within a word, bytes are merged
pair by pair. Files write a byte as one printable character; `BYTE_OF` reads that alphabet. Radford et al. 2019.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from txjax.data.codec import END_OF_TEXT, Codec


def _alphabet() -> dict[str, int]:
    """Printable Latin-1 bytes stand for themselves, the others, in order, for the characters from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + i): b for i, b in enumerate(hidden)}


BYTE_OF = _alphabet()
PIECE = 1 << 16  # characters that the engine sees at once: its memory goes with the length of a text

# After a line's end between two visible characters GPT-2's pattern always begins a new word.
_SEAM = re.compile(r"(?<=\S\n)(?=\S)")


def words(text: str) -> Iterator[str]:
    """The words of a text in GPT-2's pattern, each byte written as a character of the byte alphabet."""
    splitter = ByteLevel(add_prefix_space=False, use_regex=True)
    for part in parts(text, PIECE):
        yield from (word for word, _ in splitter.pre_tokenize_str(part))


def parts(text: str, size: int) -> Iterator[str]:
    """A text in parts of `size` characters, or more where a word would be cut: each can be encoded alone."""
    start = 0
    while len(text) - start > size:
        seam = _SEAM.search(text, start + size)
        if seam is None:
            break
        yield text[start : seam.start()]
        start = seam.start()
    yield text[start:]


class ByteLevelCodec(Codec):
    """Ids by a vocabulary and an ordered list of merges, run by the tokenizers library."""

    kind = "bpe"

    def __init__(self, vocabulary: Mapping[str, int], merges: Iterable[Sequence[str]]) -> None:
        self.vocabulary = dict(vocabulary)
        self.merges = [(left, right) for left, right in merges]
        self.separator = self.vocabulary[END_OF_TEXT]
        by_id = sorted(self.vocabulary, key=self.vocabulary.__getitem__)
        self.pieces = [bytes(BYTE_OF[c] for c in token) for token in by_id]
        self._engine = Engine(BPE(self.vocabulary, self.merges))
        self._engine.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=True)  # type: ignore[assignment]

    def encode(self, text: str) -> np.ndarray:
        encoded = (self._engine.encode(part, add_special_tokens=False).ids for part in parts(text, PIECE))
        return np.concatenate([np.array(ids, np.int32) for ids in encoded])

    def state(self) -> dict[str, Any]:
        return {"vocabulary": self.vocabulary, "merges": [list(merge) for merge in self.merges]}
