"""A whole text, from what noise left of it."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from txjax.data.chunking.sentence import ENDS, unit_ends
from txjax.data.objective import Arrays, Rewriting, Rows, before, smallest
from txjax.schema import require

LONGEST = 64  # of a span that is drawn


@dataclass(frozen=True)
class Denoising(Rewriting, kind="denoising"):
    """The encoder reads the text with noise, then the end; the decoder writes the text as it was, then the end, and
    begins with the end. Lewis et al. 2020, section 2.2.

    density: share of the tokens that noise takes, rounded, at least one a row.
    noise: infilling: spans of a length by Poisson(mean_span), each replaced by one mask, also those of length 0, which
        put a mask where nothing is missing. masking: a mask for each token. deletion: nothing for it.
    sentences: permuted first, as chunking=sentence tells them apart, or kept in order.

    data.context is what the encoder reads, and as much as the decoder may write.
    """

    density: float = 0.3
    noise: Literal["infilling", "masking", "deletion"] = "infilling"
    mean_span: float = 3.0
    sentences: Literal["permuted", "kept"] = "permuted"

    def check(self) -> None:
        require(0.0 < self.density < 1.0, f"density must be in (0, 1), got {self.density}")
        require(self.mean_span >= 1.0, f"mean_span must be at least 1 token, got {self.mean_span}")
        require(self.mean_span <= LONGEST / 2, f"mean_span must be at most {LONGEST // 2} tokens, got {self.mean_span}")

    @property
    def specials(self) -> tuple[str, ...]:
        return ("mask", "end")

    def room(self, context: int) -> int:
        require(context > 2, f"data.objective={self.kind} needs data.context=3 at least, got {context}")
        return context - 1

    def make(self, rows: Rows) -> Arrays:
        text, segments = rows.read("tokens", "segments")
        keys = np.stack([rows.draws.uniform(text.shape[1]) for _ in range(3)], 1)  # [B, 3, N]
        length = (segments > 0).sum(1)
        targets, sources = (np.zeros((len(text), rows.context), np.int64) for _ in range(2))
        written, read = (np.zeros(len(text), np.int64) for _ in range(2))
        for row in np.flatnonzero(length):
            original = text[row, : length[row]]
            noisy = self._noisy(self._ordered(original, rows, keys[row, 0]), rows.special("mask"), keys[row, 1:])
            for array, ids, count in ((targets, original, written), (sources, noisy, read)):
                count[row] = len(ids) + 1
                array[row, : count[row]] = np.append(ids, rows.special("end"))
        real = (np.arange(rows.context) < written[:, None]).astype(np.int64)
        return {
            "tokens": before(targets, rows.codec.start[0]) * real,
            "targets": targets,
            "weights": real,
            "segments": real,
            "source": sources,
            "source_segments": np.arange(rows.context) < read[:, None],
        }

    def _ordered(self, tokens: np.ndarray, rows: Rows, keys: np.ndarray) -> np.ndarray:
        if self.sentences == "kept":
            return tokens
        ends = unit_ends(tokens, rows.codec.pieces, ENDS["sentence"])
        sentences = np.split(tokens, ends[ends < len(tokens)])
        return np.concatenate([sentences[i] for i in np.argsort(keys[: len(sentences)], kind="stable")])

    def _noisy(self, tokens: np.ndarray, mask: int, keys: np.ndarray) -> np.ndarray:
        """keys: [2, at least as many as tokens], uniform in (0, 1)."""
        budget = min(max(round(self.density * len(tokens)), 1), len(tokens))
        if self.noise == "infilling":
            return infilled(tokens, mask, span_lengths(keys[0], budget, self.mean_span), keys[1])
        places = np.ones((1, len(tokens)), bool)
        taken = smallest(keys[:1, : len(tokens)], places, np.array([budget]))[0]
        return np.where(taken, mask, tokens) if self.noise == "masking" else tokens[~taken]


def span_lengths(keys: np.ndarray, budget: int, mean: float) -> np.ndarray:
    """Lengths by Poisson(mean), one after the other until they are `budget` together, the last one cut to fit. Those of
    0 are left out where there would be more spans than tokens in them.
    """
    lengths = np.searchsorted(_poisson(mean), keys)
    total = np.cumsum(lengths)
    lengths = np.diff(np.minimum(total, budget), prepend=0)[: int(np.searchsorted(total, budget)) + 1]
    spare = budget - np.count_nonzero(lengths)
    return lengths[(lengths > 0) | (np.cumsum(lengths == 0) <= spare)]


@functools.lru_cache(maxsize=8)
def _poisson(mean: float) -> np.ndarray:
    """Its distribution function at 0, 1, ..."""
    return np.cumsum([math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(LONGEST)])


def infilled(tokens: np.ndarray, mask: int, lengths: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The tokens with spans of these lengths, in this order, each replaced by a mask. They lie apart or side by side,
    and each way to lie so is as likely.
    """
    places = len(tokens) - int(lengths.sum()) + len(lengths)  # of tokens that stay, and of spans
    is_span = smallest(keys[None, :places], np.ones((1, places), bool), np.array([len(lengths)]))[0]
    taken = np.ones(places, np.int64)
    taken[is_span] = lengths
    first = np.minimum(np.cumsum(taken) - taken, len(tokens) - 1)
    return np.where(is_span, mask, tokens[first])
