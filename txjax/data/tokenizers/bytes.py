"""Bytes as tokens: no vocabulary to learn, every text has ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from txjax.config.data import Tokenizer
from txjax.data.codec import END_OF_TEXT, Codec


@dataclass(frozen=True)
class Bytes(Tokenizer, kind="bytes"):
    """The 256 bytes of UTF-8, and 256 for the end of a text."""

    def build(self, documents: Iterable[str]) -> BytesCodec:
        return BytesCodec()

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> BytesCodec:
        return BytesCodec()


class BytesCodec(Codec):
    """See Bytes."""

    kind = "bytes"
    pieces = (*(bytes([b]) for b in range(256)), END_OF_TEXT.encode())
    separator = 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-8"), np.uint8).astype(np.int32)

    def state(self) -> dict[str, Any]:
        return {}
