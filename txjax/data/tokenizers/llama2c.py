"""The tokenizer file of llama2.c: SentencePiece's pieces and scores in a flat binary form.

Layout, little-endian: int32, the longest piece in bytes; then for each id float32 score, int32 length, the piece.
Ids 0, 1, 2 are unknown, beginning and end of text; 3 to 258 the bytes; the rest are pieces to merge by score.
github.com/karpathy/llama2.c, tokenizer.py writes it and run.c reads it.
"""

from __future__ import annotations

import heapq
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from txjax.config.data import Tokenizer
from txjax.data import corpora
from txjax.data.codec import Codec
from txjax.schema import ConfigError

BOS, EOS, FIRST_BYTE = 1, 2, 3
_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")


@dataclass(frozen=True)
class Llama2c(Tokenizer, kind="llama2c"):
    """path: a tokenizer file of llama2.c; none: tok512.bin of the corpus stories260K."""

    path: str | None = None

    def build(self, documents: Iterable[str]) -> Llama2cCodec:
        path = corpora.locate("stories260K", "tok512.bin") if self.path is None else Path(self.path).expanduser()
        return Llama2cCodec(*read(path))

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Llama2cCodec:
        return Llama2cCodec([piece.encode("utf-8", "surrogateescape") for piece in state["pieces"]], state["scores"])


def read(path: Path) -> tuple[list[bytes], list[float]]:
    """The pieces and scores of a tokenizer file; ConfigError where it is cut off or something else."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"data.tokenizer.llama2c.path: {path} cannot be read: {error.strerror}") from None
    pieces: list[bytes] = []
    scores: list[float] = []
    longest = struct.unpack_from("<i", data)[0] if len(data) >= 4 else -1
    place = 4
    while place < len(data):
        score, length = struct.unpack_from("<fi", data, place) if place + 8 <= len(data) else (0.0, -1)
        place += 8 + length
        if not 0 <= length <= longest or place > len(data):
            raise ConfigError(f"{path} is no llama2.c tokenizer, or is cut off: id {len(pieces)} cannot be read")
        pieces.append(data[place - length : place])
        scores.append(score)
    if [_BYTE.fullmatch(piece) is not None for piece in pieces[:259]] != [False] * FIRST_BYTE + [True] * 256:
        raise ConfigError(f"{path} is no llama2.c tokenizer, or is cut off: ids 3 to 258 must be <0x00> to <0xFF>")
    return pieces, scores


class Llama2cCodec(Codec):
    """See Llama2c. A text begins with id 1, as each story in the training of llama2.c's models does."""

    kind = "llama2c"
    separator = BOS
    bos = BOS

    def __init__(self, names: list[bytes], scores: list[float]) -> None:
        self._names, self._scores = names, scores
        self._ids = {name: index for index, name in enumerate(names)}
        self.pieces = [_text(name) for name in names]
        self.pieces[BOS] = self.pieces[EOS] = b""

    def piece(self, token: int, previous: int | None) -> bytes:
        """After the beginning of a text the space that encode put there is taken away."""
        piece = self.pieces[token]
        return piece[1:] if previous == BOS and piece.startswith(b" ") else piece

    def encode(self, text: str) -> np.ndarray:
        """A space, then characters (bytes where a character is no piece), merged pair by pair, the best score first."""
        ids: list[int] = []
        for character in " " + text if text else "":
            spelt = character.encode("utf-8")
            ids += [self._ids[spelt]] if spelt in self._ids else [FIRST_BYTE + byte for byte in spelt]
        return np.array(self._merge(ids), np.int32)

    def _merge(self, ids: list[int]) -> list[int]:
        """Join neighbours that make a piece, by falling score and from the left, until none do."""
        alive = list(ids)  # a token that was joined to its left becomes -1
        left, right = list(range(-1, len(ids) - 1)), list(range(1, len(ids) + 1))
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(place: int) -> None:
            if place >= 0 and right[place] < len(ids):
                a, b = alive[place], alive[right[place]]
                joined = self._ids.get(self._names[a] + self._names[b])
                if joined is not None:
                    heapq.heappush(heap, (-self._scores[joined], place, a, b, joined))

        for place in range(len(ids) - 1):
            offer(place)
        while heap:
            _, place, a, b, joined = heapq.heappop(heap)
            other = right[place]
            if alive[place] != a or other >= len(ids) or alive[other] != b:
                continue  # one of the two has been joined to something else since
            alive[place], alive[other] = joined, -1
            right[place] = right[other]
            if right[place] < len(ids):
                left[right[place]] = place
            offer(left[place])
            offer(place)
        return [token for token in alive if token >= 0]

    def state(self) -> dict[str, Any]:
        return {"pieces": [n.decode("utf-8", "surrogateescape") for n in self._names], "scores": self._scores}


def _text(name: bytes) -> bytes:
    """What a piece prints as: itself, or the byte that <0x0A> and its like stand for."""
    match = _BYTE.fullmatch(name)
    return bytes([int(match[1], 16)]) if match else name
