"""Spans of text that a decoder puts back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.objective import Arrays, Rewriting, Rows, before, smallest
from txjax.schema import require


@dataclass(frozen=True)
class SpanCorruption(Rewriting, kind="span_corruption"):
    """The encoder reads the text with each of some spans replaced by a sentinel of its own, then the end; the decoder
    writes sentinel0, the first span, sentinel1, the second, ..., the end, and begins with pad. Raffel et al. 2020,
    section 3.1.4, and the authors' code: text and spans alternate, text first; n tokens have m = round(density n) in
    spans (of 1 ... n - 1), in round(m / mean_span) spans; all ways to cut m into spans, and n - m into what is between
    them, are as likely.

    density: share of the tokens that is in spans. mean_span: their mean length in tokens.
    sentinels: ids for them; the text of a row has no more spans.

    data.context is what the encoder reads, and as much as the decoder may write: a row has as many tokens as fit both.
    """

    density: float = 0.15
    mean_span: float = 3.0
    sentinels: int = 100

    def check(self) -> None:
        require(0.0 < self.density < 1.0, f"density must be in (0, 1), got {self.density}")
        require(self.mean_span >= 1.0, f"mean_span must be at least 1 token, got {self.mean_span}")
        require(self.sentinels > 0, f"sentinels must be at least 1, got {self.sentinels}")

    @property
    def specials(self) -> tuple[str, ...]:
        return ("pad", "end", *(f"sentinel{number}" for number in range(self.sentinels)))

    def spans(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How many tokens of so many are in spans, and in how many spans."""
        hidden = np.clip(np.round(length * self.density), 1, np.maximum(length - 1, 1)).astype(np.int64)
        hidden = np.where(length > 1, hidden, 0)
        count = np.maximum(np.round(hidden / self.mean_span), 1).astype(np.int64)
        return hidden, np.minimum(count, np.minimum(hidden, length - hidden))

    def lengths(self, length: int) -> tuple[int, int]:
        """Of what the encoder reads and of what the decoder writes for so many tokens of text."""
        hidden, count = (int(number) for number in self.spans(np.array(length)))
        return length - hidden + count + 1, hidden + count + 1

    def room(self, context: int) -> int:
        length = 1
        while max(self.lengths(length + 1)) <= context:
            length += 1
        require(
            length > 1,
            f"data.objective={self.kind} finds no room for two tokens in data.context={context}: choose at least 4",
        )
        needed = int(self.spans(np.array(length))[1])
        require(
            needed <= self.sentinels,
            f"data.objective.span_corruption.sentinels={self.sentinels} is fewer than the {needed} spans of a row of "
            f"{length} tokens: set it to {needed}",
        )
        return length

    def make(self, rows: Rows) -> Arrays:
        text, segments = rows.read("tokens", "segments")
        length = (segments > 0).sum(1)
        hidden, count = self.spans(length)
        opens, inside = draw_spans(rows.draws, length, hidden, count, text.shape[1])
        sentinels = np.array([rows.special(f"sentinel{number}") for number in range(self.sentinels)])
        sentinel = sentinels[np.clip(np.cumsum(opens, 1) - 1, 0, self.sentinels - 1)]
        end, full = rows.special("end"), text.shape[1]
        real = segments > 0
        source = squeezed(np.where(opens, sentinel, text), real & (opens | ~inside), self.lengths(full)[0], end)
        both = np.stack([sentinel, text], 2).reshape(len(text), -1)  # a place before each token, for its sentinel
        kept = np.stack([opens, inside], 2).reshape(len(text), -1)
        targets = squeezed(both, kept & (count > 0)[:, None].repeat(2 * full, 1), self.lengths(full)[1], end)
        return {
            "tokens": before(targets[0], rows.codec.start[0]) * targets[1],
            "targets": targets[0],
            "weights": targets[1],
            "segments": targets[1],
            "source": source[0],
            "source_segments": source[1],
        }


def draw_spans(
    draws: Draws, length: np.ndarray, hidden: np.ndarray, count: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """bool [B, width] each: where a span opens, and which tokens are in spans. length, hidden, count: [B]."""
    shown = length - hidden
    most = int(count.max(initial=0))
    between = parts(draws, shown, count, width, most)
    spans = parts(draws, hidden, count, width, most)
    stops = np.cumsum(between + spans, 1)  # of each span
    exists = np.arange(most) < count[:, None]
    edges = np.zeros((len(length), width + 1), np.int64)
    row = np.broadcast_to(np.arange(len(length))[:, None], exists.shape)
    np.add.at(edges, (row[exists], (stops - spans)[exists]), 1)
    opens = edges[:, :width] > 0
    np.add.at(edges, (row[exists], stops[exists]), -1)
    return opens, np.cumsum(edges[:, :width], 1) > 0


def parts(draws: Draws, items: np.ndarray, count: np.ndarray, width: int, most: int) -> np.ndarray:
    """int64 [B, most]: `items` [B] cut into `count` [B] parts of at least one, all ways as likely; 0 past the last."""
    place = np.arange(width)
    cuts = smallest(draws.uniform(width), place < items[:, None] - 1, count - 1)  # after these items
    number = np.cumsum(cuts, 1) - cuts
    real = place < items[:, None]
    sizes = np.zeros((len(items), most + 1), np.int64)
    row = np.broadcast_to(np.arange(len(items))[:, None], real.shape)
    np.add.at(sizes, (row[real], np.minimum(number, most)[real]), 1)
    return sizes[:, :most]


def squeezed(tokens: np.ndarray, kept: np.ndarray, width: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that are kept, moved to the left, then the end, [B, width]; and 1 where these are. Where none is kept
    there is no end.
    """
    count = kept.sum(1)
    out = np.zeros((len(tokens), width), np.int64)
    row, place = np.nonzero(kept)
    out[row, (np.cumsum(kept, 1) - 1)[row, place]] = tokens[row, place]
    some = np.flatnonzero(count)
    out[some, count[some]] = end
    return out, (np.arange(width) < np.where(count > 0, count + 1, 0)[:, None]).astype(np.int64)
