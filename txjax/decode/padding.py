"""Lists of ids as the rows of a batch, in few widths, so that few programs are compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from txjax.batch import Batch
from txjax.schema import require

SHORTEST = 32  # of the lengths that prompts, sources and caches are rounded up to


def rounded(length: int, limit: int | None) -> int:
    """The next of few lengths (multiples of SHORTEST, at most a quarter longer), never past the limit."""
    step = max(SHORTEST, 1 << (length // 8).bit_length())
    up = -(-length // step) * step
    return up if limit is None else max(min(up, limit), length)


def padded(rows: Sequence[Sequence[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """int32 ids [B, width], 0 after the last of a row, and segments: 1 on ids and 0 on padding."""
    ids = np.zeros((len(rows), width), np.int32)
    for row, values in zip(ids, rows, strict=True):
        row[: len(values)] = values
    lengths = np.array([len(row) for row in rows])
    return ids, (np.arange(width) < lengths[:, None]).astype(np.int32)


def batch_of(prompts: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None, context: int | None) -> Batch:
    """Prompts, and what an encoder reads beside each, right-padded."""
    longest = max(map(len, prompts))
    # over an encoder nearly all prompts are the id or two that start a text: padding would be most of the work
    width = longest if sources is not None and longest <= 2 else rounded(longest, context)
    tokens, segments = padded(prompts, width)
    if sources is None:
        return Batch(tokens=tokens, segments=segments)
    source, source_segments = padded(sources, rounded(max(map(len, sources)), context))
    return Batch(tokens=tokens, segments=segments, source=source, source_segments=source_segments)


def check_ids(what: str, rows: Sequence[Sequence[int]], limit: int | None) -> None:
    """ConfigError for a row without ids, or with one that is outside the vocabulary of `limit` ids."""
    for i, row in enumerate(rows):
        require(len(row) > 0, f"{what} {i} has no tokens: start it with the end-of-text id or any other")
        for token in (min(row), max(row)):
            inside = token >= 0 and (limit is None or token < limit)
            require(inside, f"{what} {i} has the id {token}, outside the vocabulary of {limit} ids")


def check_sources(prompts: Sequence[Sequence[int]], sources: Sequence[Sequence[int]] | None, limit: int | None) -> None:
    if sources is not None:
        count = len(prompts)
        require(len(sources) == count, f"{count} prompts need {count} sources, got {len(sources)}")
        check_ids("source", sources, limit)
