"""Random crops of the text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.chunking.concatenate import Concatenate
from txjax.data.documents import Documents
from txjax.data.sequences import PLAIN, Sequences, build, require_one_sequence


@dataclass(frozen=True)
class Crop(Chunking, kind="crop"):
    """In training a sequence may begin at any token of all documents in a row, so that no token has a fixed place in
    its context; an epoch is one crop from each place. To evaluate, the text is cut end to end, as by concatenate.

    Holds 24 bytes for each token of the text: for corpora that fit on one machine many times over.
    """

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        if split != "train":
            return Concatenate().chunk(documents, context, split)
        require_one_sequence(documents, context, split)
        starts = np.arange(len(documents.tokens) - context)
        spans = np.stack([starts, starts + context + 1, np.zeros_like(starts)], 1)
        return build(documents, spans, context, split=split, fields=PLAIN)
