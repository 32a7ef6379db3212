"""Byte-pair encoding trained on the training documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config.data import Tokenizer
from txjax.data.bpe_training import train
from txjax.data.codec import END_OF_TEXT
from txjax.data.tokenizers.byte_level import BYTE_OF, ByteLevelCodec, words
from txjax.schema import require

SMALLEST = 1 + len(BYTE_OF)


@dataclass(frozen=True)
class BPE(Tokenizer, kind="bpe"):
    """vocab_size: the end of a text (id 0), 256 bytes and the merges, of which a small text may give fewer."""

    vocab_size: int = 4096

    def check(self) -> None:
        require(
            self.vocab_size >= SMALLEST,
            f"vocab_size must be at least {SMALLEST} (the bytes and the end of a text), got {self.vocab_size}",
        )

    def build(self, documents: Iterable[str]) -> ByteLevelCodec:
        merges = train((word for text in documents for word in words(text)), self.vocab_size - SMALLEST)
        tokens = [END_OF_TEXT, *BYTE_OF, *(left + right for left, right in merges)]
        return ByteLevelCodec({token: index for index, token in enumerate(tokens)}, merges)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ByteLevelCodec:
        return ByteLevelCodec(state["vocabulary"], state["merges"])
