"""The forest plot of a study in plain characters: an interval a line, around 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

WIDTH = 49  # characters of an interval's line


class Interval(Protocol):
    """What is drawn of a verdict."""

    @property
    def prediction(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def mean(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def margin(self) -> float | None: ...


def forest(intervals: Sequence[Interval]) -> list[str]:
    """Lines `NAME  ---|--o--  WORD`: o is the mean, - the interval, | zero and : the margins. Each unit has a scale of
    its own, since nats and accuracies do not share an axis.
    """
    if not intervals:
        return []
    names = max(len(one.prediction) for one in intervals)
    return [
        f"{one.prediction:<{names}}  {_line(one, _reach([i for i in intervals if i.unit == one.unit]))}  {one.label}"
        for one in intervals
    ]


def _reach(intervals: Sequence[Interval]) -> float:
    """The largest distance from 0 that has to be shown."""
    ends = [abs(value) for one in intervals for value in (one.low, one.high, one.mean) if math.isfinite(value)]
    margins = [one.margin for one in intervals if one.margin]
    return max([*ends, *margins], default=1.0) or 1.0


def _line(one: Interval, reach: float) -> str:
    cells = [" "] * WIDTH

    def at(value: float) -> int:
        return round((max(-1.0, min(1.0, value / reach)) + 1) / 2 * (WIDTH - 1))

    if one.margin:
        cells[at(-one.margin)] = cells[at(one.margin)] = ":"
    if math.isfinite(one.low) and math.isfinite(one.high):
        for place in range(at(one.low), at(one.high) + 1):
            cells[place] = "-"
    cells[at(0.0)] = "|"
    if math.isfinite(one.mean):
        cells[at(one.mean)] = "o"
    return "".join(cells)
