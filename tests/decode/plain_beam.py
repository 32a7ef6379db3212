"""Beam search in plain Python, without a cache: each text is read anew for each id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from txjax.decode import BeamSearch, Hypothesis


def penalty(search: BeamSearch, length: int) -> float:
    return (length if search.penalty == "fairseq" else (5 + length) / 6) ** search.length_penalty


def plain_beam(
    logp_of: Callable[[list[int]], np.ndarray], search: BeamSearch, longest: int, early: bool = True
) -> tuple[list[Hypothesis], int]:
    """The best finished texts, and after how many ids the search stopped; not early: it goes to the longest."""
    k, beams, finished, length = search.size, [([], 0.0)], [], 0
    while beams and length < longest:
        length += 1
        candidates = [
            ([*ids, token], total + value)
            for ids, total in beams
            for token, value in enumerate(logp_of(ids).tolist())
            if length < longest or token == search.end
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        ended = [(ids, total) for ids, total in candidates[:k] if ids[-1] == search.end]
        finished += [Hypothesis(ids, total / penalty(search, length)) for ids, total in ended]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis.score)[:k]
        beams = [(ids, total) for ids, total in candidates[: 2 * k] if ids[-1] != search.end][:k]
        if early and beams and stops(finished, beams[0][1], search, longest):
            break
    return finished[: search.results], length


def stops(finished: list[Hypothesis], best_open: float, search: BeamSearch, longest: int) -> bool:
    if search.stop == "full":
        return len(finished) == search.size
    bound = best_open / penalty(search, longest)
    return len(finished) >= search.results and finished[search.results - 1].score >= bound


def all_texts(logp_of: Callable[[list[int]], np.ndarray], search: BeamSearch, longest: int) -> list[Hypothesis]:
    """Every text of up to `longest` ids that ends, the best first: a beam into which all fit, at every length."""
    vocab = len(logp_of([]))
    wide = replace(search, size=vocab**longest, results=vocab**longest)
    return plain_beam(logp_of, wide, longest, early=False)[0]
