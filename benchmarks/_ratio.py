"""How two sides that were timed in the same rounds compare."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from scipy import stats


class Ratio(NamedTuple):
    """A geometric mean over rounds, and Student's 95 % interval on the logarithms."""

    mean: float
    low: float
    high: float

    def entries(self, name: str) -> dict[str, Any]:
        """As the last line of a benchmark has it."""
        return {name: round(self.mean, 4), f"{name}_95": [round(self.low, 4), round(self.high, 4)]}


def ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """The time of `over` in units of `under`, round by round."""
    logs = [math.log(a / b) for a, b in zip(over, under, strict=True)]
    mean, half = statistics.fmean(logs), 0.0
    if len(logs) > 1:
        half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
