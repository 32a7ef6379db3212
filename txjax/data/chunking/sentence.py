"""Sequences that end where sentences or paragraphs do."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.documents import Documents
from txjax.data.sequences import PADDED, Sequences, build

logger = logging.getLogger(__name__)


def _any_of(characters: str) -> bytes:
    return b"(?:" + b"|".join(re.escape(c.encode()) for c in characters) + b")"


# In UTF-8 bytes, since a token may be part of a character. Latin sentence ends need a space after them (3.14 has none).
_CLOSING = _any_of("\"')]}”’»」』）》】") + b"*"
_PARAGRAPH = rb"(?:\r?\n[ \t]*){2,}"
_SENTENCE = _any_of(".!?") + b"+" + _CLOSING + rb"(?=\s|$)|" + _any_of("。！？…") + b"+" + _CLOSING
ENDS = {"paragraph": re.compile(_PARAGRAPH), "sentence": re.compile(_PARAGRAPH + b"|" + _SENTENCE)}


@dataclass(frozen=True)
class Sentence(Chunking, kind="sentence"):
    """Whole sentences (or paragraphs), as many as fit, of one document a sequence; the rest is padding.

    unit: sentence ends are . ! ? and 。！？… with the quotes and brackets that close after them, and paragraph ends;
        paragraph ends are empty lines. A unit longer than the context is divided, which the log says.
    """

    unit: Literal["sentence", "paragraph"] = "sentence"

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        spans: list[tuple[int, int, int]] = []
        divided = 0
        for start, stop in zip(documents.starts.tolist(), documents.stops.tolist(), strict=True):
            ends = start + unit_ends(documents.tokens[start:stop], documents.pieces, ENDS[self.unit])
            cuts, cut_inside = pack(start, stop, ends, context)
            spans += [(a, b, 0) for a, b in cuts]
            divided += cut_inside
        if divided:
            logger.warning("%s: %d cuts fell inside a %s, longer than %d tokens", split, divided, self.unit, context)
        array = np.array(spans, np.int64).reshape(-1, 3)
        return build(documents, array, context, split=split, fields=PADDED)


def unit_ends(tokens: np.ndarray, pieces: Sequence[bytes], ends: re.Pattern[bytes]) -> np.ndarray:
    """Rising numbers of tokens, each the shortest beginning of the document that holds a further unit whole."""
    spelt = [pieces[token] for token in tokens.tolist()]
    token_ends = np.cumsum([len(piece) for piece in spelt])
    unit_ends = [match.end() for match in ends.finditer(b"".join(spelt))]
    return np.unique(np.searchsorted(token_ends, unit_ends) + 1)


def pack(start: int, stop: int, ends: np.ndarray, context: int) -> tuple[list[tuple[int, int]], int]:
    """Spans over tokens[start:stop] that end at the last of `ends` within reach; and how many had none to end at.

    A span shares its first token with the one before, so that its first word is predicted too.
    """
    spans: list[tuple[int, int]] = []
    divided = 0
    while start < stop - 1:
        reach = start + context + 1
        end = stop
        if reach < stop:
            before = int(np.searchsorted(ends, reach, side="right")) - 1
            inside = before < 0 or ends[before] <= start + 1
            divided += inside
            end = reach if inside else int(ends[before])
        spans.append((start, end))
        start = end - 1
    return spans, divided
