"""Rules: from a prediction's numbers to a word, at a level. The first that holds decides (docs/statistics.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from txjax.lab import statistics
from txjax.lab.evidence import Evidence
from txjax.lab.study import Prediction

Word = Literal["reproduced", "reversed", "equivalent", "inconclusive", "identical", "not testable", "estimate"]
Size = Literal["", "material", "negligible"]
Cause = Literal["", "tuning", "missing cells", "failures", "censored"]


@dataclass(frozen=True)
class Finding:
    """What a rule says. needed: seeds that would settle what is not."""

    word: Word
    reason: str
    cause: Cause = ""
    size: Size = ""
    needed: int | None = None


@dataclass(frozen=True)
class Case:
    """A prediction and its evidence. margin: in `unit`. barred: why no rule is asked, if none is."""

    prediction: Prediction
    evidence: Evidence
    unit: str
    margin: float | None
    barred: Finding | None = None

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.evidence.numbers

    @property
    def mean(self) -> float:
        return math.fsum(self.numbers) / len(self.numbers) if self.numbers else math.nan

    @property
    def s_d(self) -> float:
        return statistics.spread(self.numbers, self.evidence.floor)

    @property
    def p(self) -> float:
        """The level at which the first rule of the kind holds: what Holm sorts by."""
        floor = self.evidence.floor
        if len(self.numbers) < 2:
            return math.nan
        if self.prediction.kind != "same" or self.margin is None:
            return statistics.location_p(self.numbers, self.prediction.least or 0.0, floor)
        if abs(self.mean) > self.margin:
            return statistics.location_p(self.numbers, math.copysign(self.margin, self.mean), floor)
        return statistics.equivalence_p(self.numbers, self.margin, floor)

    def side(self, at: float, alpha: float) -> int:
        return statistics.side(self.numbers, at, alpha, self.evidence.floor)

    def interval(self, alpha: float) -> tuple[float, float]:
        return statistics.t_interval(self.numbers, alpha, self.evidence.floor)

    def within(self, alpha: float) -> bool:
        """Whether the interval at 1 - 2 alpha, 90 % in a family of one, lies inside the margin."""
        low, high = self.interval(2 * alpha)
        return self.margin is not None and -self.margin < low and high < self.margin


def decide(case: Case, alpha: float) -> Finding:
    """The word for a prediction at its level, after Holm."""
    if case.barred is not None:
        return case.barred
    return {"direction": _direction, "same": _same, "at_least": _at_least}[case.prediction.kind](case, alpha)


def _direction(case: Case, alpha: float) -> Finding:
    side = case.side(0.0, alpha)
    if side > 0:
        return Finding("reproduced", "the interval lies above 0", size=_size(case, alpha))
    if side < 0:
        return Finding("reversed", "the interval lies below 0")
    if case.within(alpha):
        return Finding("equivalent", f"there is no such effect as large as {case.margin:g}")
    return _open(case, alpha, max(abs(case.mean), case.margin or 0.0))


def _same(case: Case, alpha: float) -> Finding:
    assert case.margin is not None
    if case.within(alpha):
        return Finding("reproduced", f"the interval lies within {case.margin:g} of 0")
    if case.side(case.margin, alpha) > 0 or case.side(-case.margin, alpha) < 0:
        return Finding("reversed", f"the interval lies more than {case.margin:g} from 0")
    seeds = statistics.needed_for_equivalence(case.margin, case.s_d, alpha)
    return Finding("inconclusive", f"were they equal, {_seeds(seeds)} would show it with 80 %", needed=seeds)


def _at_least(case: Case, alpha: float) -> Finding:
    least = case.prediction.least
    assert least is not None
    sign = {1: "above 0", -1: "below 0", 0: "not settled against 0"}[case.side(0.0, alpha)]
    side = case.side(least, alpha)
    if side > 0:
        return Finding("reproduced", f"the interval lies above {least:g}")
    if side < 0:
        return Finding("reversed", f"the interval lies below {least:g}; the effect is {sign}")
    return _open(case, alpha, abs(case.mean - least), f"the effect is {sign}; ")


def _size(case: Case, alpha: float) -> Size:
    low, high = case.interval(alpha)
    if case.margin is None:
        return ""
    return "negligible" if high < case.margin else "material" if low >= case.margin else ""


def _open(case: Case, alpha: float, effect: float, said: str = "") -> Finding:
    """Inconclusive, with the seeds that would find a distance as large as the one seen, or as matters."""
    seeds = statistics.needed(effect, case.s_d, alpha)
    return Finding(
        "inconclusive", f"{said}{_seeds(seeds)} would find a difference of {effect:.2g} with 80 %", needed=seeds
    )


def _seeds(count: int | None) -> str:
    return f"not even {statistics.MOST_SEEDS} seeds" if count is None else f"{count} seeds"
