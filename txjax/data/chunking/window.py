"""A window that slides over the text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.config.data import Chunking, Split
from txjax.data.documents import Documents
from txjax.data.sequences import PLAIN, Sequences, build, require_one_sequence
from txjax.schema import require


@dataclass(frozen=True)
class Window(Chunking, kind="window"):
    """A window of `context` tokens that moves by `stride` over all documents in a row, and last to the text's end.

    stride: none: half of the context. In training every token of a window counts; to evaluate only those that no
        window before has predicted, so that each is scored once and with at least context - stride tokens before it.
    """

    stride: int | None = None

    def check(self) -> None:
        require(self.stride is None or self.stride > 0, f"stride must be at least 1 or none, got {self.stride}")

    def chunk(self, documents: Documents, context: int, split: Split) -> Sequences:
        stride = self.stride or max(1, context // 2)
        require(
            stride <= context,
            f"data.chunking.window.stride={stride} would leave out tokens: choose at most data.context={context}",
        )
        require_one_sequence(documents, context, split)
        last = len(documents.tokens) - context - 1
        starts = np.unique(np.append(np.arange(0, last + 1, stride), last))
        stops = starts + context + 1
        skips = np.zeros_like(starts)
        if split != "train":
            skips[1:] = stops[:-1] - starts[1:] - 1
        return build(documents, np.stack([starts, stops, skips], 1), context, split=split, fields=PLAIN)
