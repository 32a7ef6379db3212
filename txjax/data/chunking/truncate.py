"""The beginning of each document."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.documents import Documents
from txjax.data.sequences import PADDED, Sequences, build

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truncate(Chunking, kind="truncate"):
    """One sequence a document: its first `context` tokens and the one after, padded if it is shorter. What is cut off
    is neither read nor scored; the log and the report say how much that is."""

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        long_enough = documents.stops - documents.starts >= 2
        starts, stops = documents.starts[long_enough], documents.stops[long_enough]
        kept = np.minimum(stops, starts + context + 1)
        dropped = int((stops - kept).sum())
        if dropped:
            logger.warning(
                "%s: truncate dropped %d of %d tokens, of %d documents longer than %d",
                split, dropped, len(documents.tokens), int((kept < stops).sum()), context + 1,
            )  # fmt: skip
        spans = np.stack([starts, kept, np.zeros_like(starts)], 1)
        return build(documents, spans, context, split=split, fields=PADDED, dropped=dropped)
