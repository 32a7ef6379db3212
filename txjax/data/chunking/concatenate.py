"""Concatenate and split: one stream, cut every `context` tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.documents import Documents
from txjax.data.sequences import PLAIN, Sequences, build, require_one_sequence


@dataclass(frozen=True)
class Concatenate(Chunking, kind="concatenate"):
    """All documents in a row, one separator between them. Sequences share one token with their neighbours, so that
    every token but the first is predicted once; the last sequence is padded. Attention may cross documents."""

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        require_one_sequence(documents, context, split)
        length = len(documents.tokens)
        starts = np.arange(0, length - 1, context)
        spans = np.stack([starts, np.minimum(starts + context + 1, length), np.zeros_like(starts)], 1)
        return build(documents, spans, context, split=split, fields=PLAIN)
