"""Tokens that were hidden or changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from txjax.config.model import Model
from txjax.data.objective import Arrays, Drawn, Rows, require_whole_rows, smallest
from txjax.data.sequences import Sequences
from txjax.schema import require


@dataclass(frozen=True)
class MaskedTokens(Drawn, kind="masked"):
    """Of a row's tokens a share is chosen, to be predicted where they stood: most of them are hidden behind the id for
    mask, some stand replaced by a random token, the rest as they were. Special ids are never chosen nor put in.
    Devlin et al. 2019, sections 3.1 and A.1.

    chosen: their share, rounded, at least one a row; fresh ones each epoch.
    hidden, replaced: shares of the chosen; what they leave stays as it is.
    form: single: cls, the row, sep. pair: cls, the row's first part, sep, a second part, sep, with types 0 and 1; it is
        the row's own rest (label 0) or, half of the time, the end of another row (label 1): next-sentence prediction.
        The cut is uniform. bare: the row as chunking made it, which may be packed.
    """

    chosen: float = 0.15
    hidden: float = 0.8
    replaced: float = 0.1
    form: Literal["single", "pair", "bare"] = "single"

    def check(self) -> None:
        require(0.0 < self.chosen <= 1.0, f"chosen must be in (0, 1], got {self.chosen}")
        require(
            min(self.hidden, self.replaced) >= 0.0 and self.hidden + self.replaced <= 1.0 + 1e-9,
            f"hidden and replaced must be shares of at most 1 together, got {self.hidden} and {self.replaced}",
        )

    @property
    def specials(self) -> tuple[str, ...]:
        return ("cls", "sep", "mask")

    def room(self, context: int) -> int:
        added = {"single": 2, "pair": 3, "bare": 0}[self.form]
        require(
            context > added + 1,
            f"data.objective.masked.form={self.form} needs a context of {added + 2}, got data.context={context}",
        )
        return context - added

    def validate(self, model: Model) -> None:
        require(
            model.encoder is None and not model.causal,
            "data.objective=masked is for an encoder alone: set model.causal=False and model.encoder=none",
        )
        types = getattr(model.embedding, "types", None)
        require(
            self.form != "pair" or (types is not None and types >= 2),
            f"data.objective.masked.form=pair tells its parts by their types: set model.embedding.tokens.types=2, got "
            f"{types}",
        )

    def judge(self, rows: Sequences) -> None:
        if self.form != "bare":
            require_whole_rows(self, rows)
        require(
            self.form != "pair" or len(rows) > 1,
            "data.objective.masked.form=pair takes parts of other rows, and there is one row: choose a smaller context",
        )

    def fields(self, rows: Sequences) -> tuple[str, ...]:
        more = {"single": (), "pair": ("types", "labels"), "bare": ("positions",)}[self.form]
        return ("tokens", "targets", "weights", "segments", *more)

    def make(self, rows: Rows) -> Arrays:
        made = {"single": _single, "pair": _pair, "bare": _bare}[self.form](rows)
        original, codec, draws = made["tokens"], rows.codec, rows.draws
        eligible = made.pop("fresh") & (made["segments"] > 0) & codec.is_text[original]
        have = eligible.sum(1)
        count = np.minimum(np.maximum(np.round(have * self.chosen), 1), have)
        chosen = smallest(draws.uniform(original.shape[1]), eligible, count)
        fate = draws.uniform(original.shape[1])
        texts = np.flatnonzero(codec.is_text)
        random = texts[draws.below(len(texts), original.shape[1])]
        changed = np.where(fate < self.hidden, rows.special("mask"), random)
        kept = ~chosen | (fate >= self.hidden + self.replaced)
        return made | {
            "tokens": np.where(kept, original, changed),
            "targets": np.where(chosen, original, 0),
            "weights": chosen,
        }


def _bare(rows: Rows) -> Arrays:
    tokens, weights, segments, positions = rows.read("tokens", "weights", "segments", "positions")
    return {"tokens": tokens, "fresh": weights > 0, "segments": segments, "positions": positions}


def _single(rows: Rows) -> Arrays:
    text, segments = rows.read("tokens", "segments")
    length = (segments > 0).sum(1, keepdims=True)
    return framed(rows, [(text, np.zeros_like(length), length)])


def _pair(rows: Rows) -> Arrays:
    text, segments = rows.read("tokens", "segments")
    length = (segments > 0).sum(1, keepdims=True)
    cut = np.where(length > 1, 1 + rows.draws.below(np.maximum(length - 1, 1), 1), length)
    count = len(rows.source)
    other = (rows.indices + 1 + rows.draws.below(count - 1, 1)[:, 0]) % count
    swapped = rows.draws.uniform(1) < 0.5
    found = rows.source.read(other, ("tokens", "segments"))
    length_of_other = (found["segments"] > 0).sum(1, keepdims=True)
    start = np.where(swapped, np.minimum(cut, length_of_other - 1), cut)
    stop = np.where(length > 0, np.where(swapped, length_of_other, length), start)
    second = np.where(swapped, found["tokens"], text)
    made = framed(rows, [(text, np.zeros_like(cut), cut), (second, start, stop)])
    return made | {"labels": (swapped & (length > 0))[:, 0]}


def framed(rows: Rows, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Arrays:
    """cls, then each part and a sep after it, [B, context]. A part is text[start:stop], with [B, N], [B, 1], [B, 1].
    A row whose first part is empty is all padding.
    """
    place = np.broadcast_to(np.arange(rows.context), (len(rows.indices), rows.context))
    tokens = np.where(place == 0, rows.special("cls"), 0)
    types, offset = np.zeros_like(tokens), np.ones((len(tokens), 1), np.int64)
    for number, (text, start, stop) in enumerate(parts):
        end = offset + stop - start
        inside = (place >= offset) & (place < end)
        read = np.take_along_axis(text, np.clip(start + place - offset, 0, text.shape[1] - 1), 1)
        tokens = np.where(inside, read, np.where(place == end, rows.special("sep"), tokens))
        types = np.where((place >= offset) & (place <= end), number, types)
        offset = end + 1
    real = (place < offset) & (parts[0][2] > parts[0][1])
    made = {"tokens": tokens * real, "segments": real.astype(np.int32), "fresh": real}
    return made | ({"types": types * real} if len(parts) > 1 else {})
