"""Tuning: nuisances such as the learning rate are chosen for each arm on seeds that are never reported.

All arms get the same grid. The value with the best mean of the validation metric wins, ties go to the smaller value,
and an optimum at the end of the grid asks for one more value there, for all arms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from txjax.lab.readouts import Metric
from txjax.lab.table import ArmKey, Level, Row, Table, arm_key, arm_name
from txjax.schema import ConfigError

EXTENSIONS = 2  # values by which each end of a grid may be extended
COARSEST = math.sqrt(10)  # factor between neighbouring learning rates, between which an optimum may lie unseen
ROUNDED = 1.12  # by how much more a factor may be off: 1, 3, 10 are written for 1, 3.16, 10, and 1, 2, 5, 10

Values = tuple[tuple[str, float], ...]  # of the tuned settings, by path
Grid = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Point:
    """A point of an arm's curve. score: the mean over tuning seeds, NaN where one of its cells is missing.
    diverged: how many of its runs did; one is enough for the worst score there is.
    """

    values: Values
    score: float
    diverged: int


@dataclass(frozen=True)
class Choice:
    """What was chosen for an arm. curve: all that was tried, in the order of the values.
    edges: tuned settings whose chosen value is the first (-1) or last (1) that was tried.
    """

    levels: Mapping[str, Level]
    best: Point
    curve: tuple[Point, ...]
    edges: Mapping[str, int]

    @property
    def tuned(self) -> dict[str, float]:
        return dict(self.best.values)

    @property
    def settled(self) -> bool:
        """Whether the optimum lies inside the grid, and nothing of the grid is missing."""
        return not self.edges and not any(math.isnan(point.score) for point in self.curve)


def refuse_coarse(path: str, rates: Sequence[float]) -> None:
    """ConfigError unless learning rates are geometric, with factors of sqrt(10) at most."""
    ordered = sorted(rates)
    if len(ordered) < 2:
        return
    if ordered[0] <= 0:
        raise ConfigError(f"tuned: {path} needs positive values, got {ordered[0]:g}")
    factors = [high / low for low, high in itertools.pairwise(ordered)]
    if max(factors) <= COARSEST * ROUNDED and max(factors) <= min(factors) * ROUNDED**2:
        return
    steps = max(1, math.ceil(math.log(ordered[-1] / ordered[0]) / math.log(COARSEST) - 0.1))
    finer = [_rounded(ordered[0] * (ordered[-1] / ordered[0]) ** (i / steps), 2) for i in range(steps + 1)]
    shown = ", ".join(f"{factor:.3g}" for factor in factors)
    raise ConfigError(
        f"tuned: {path} goes in factors of {shown}, where a grid has to be geometric in factors of at most sqrt(10): "
        f"give ({', '.join(f'{rate:g}' for rate in finer)})"
    )


def choose(table: Table, metric: Metric) -> list[Choice]:
    """The choice of every arm, from the tuning rows. metric: the validation metric to choose by."""
    rows = table.phase("tuning")
    return [_choice(rows.of_arm(arm), rows.seeds, metric) for arm in rows.arms]


def unsettled(choices: Sequence[Choice]) -> frozenset[ArmKey]:
    """The arms over which no verdict can be given: what Terms asks for."""
    return frozenset(arm_key(choice.levels) for choice in choices if not choice.settled)


def extension(choices: Sequence[Choice], planned: Grid, tried: Grid) -> dict[str, list[float]]:
    """Values to try besides, with every arm, because an arm's optimum is at an end of what was tried: one geometric
    step further. Empty once each such end has been extended twice. planned: the grid of the study.
    """
    found: dict[str, list[float]] = {}
    for name, values in tried.items():
        if len(values) < 2:  # no choice, no step
            continue
        low, *_, high = ordered = sorted(values)
        below = sum(value < min(planned[name]) for value in ordered)
        above = sum(value > max(planned[name]) for value in ordered)
        wanted = {choice.edges.get(name) for choice in choices}
        if -1 in wanted and below < EXTENSIONS and low > 0:
            found.setdefault(name, []).append(_rounded(low * low / ordered[1]))
        if 1 in wanted and above < EXTENSIONS and ordered[-2] > 0:
            found.setdefault(name, []).append(_rounded(high * high / ordered[-2]))
    return found


def sensitivity(choice: Choice, metric: Metric, trivial: float) -> float:
    """mean over the grid of min(score, trivial) - best: what a value chosen blindly from the grid would cost.

    trivial: the score of a model that has learned nothing, which is what a diverged run counts as. For a metric where
    higher is better, best - max(score, trivial). Wortsman et al. 2023, section 2.2, over this grid where theirs spans
    three decades.
    """
    sign = -1 if metric.higher_is_better else 1
    scores = [sign * point.score for point in choice.curve if not math.isnan(point.score)]
    capped = [min(score, sign * trivial) for score in scores]
    return math.fsum(capped) / len(capped) - min(capped)


def cross_fit(table: Table, chosen_by: Metric) -> Table:
    """One row for each arm and seed out of a full grid of values and seeds: the row at the value that all other seeds
    choose, so that no seed is reported at a value that it helped to choose.
    """
    report = table.phase("report")
    if len(report.seeds) < 2:
        raise ConfigError(f"cross-fitting chooses by other seeds, and the table has only {report.seeds}")
    kept: list[Row] = []
    for seed in report.seeds:
        others = report.where(lambda row, seed=seed: row.seed != seed)
        for arm in report.arms:
            values = _choice(others.of_arm(arm), others.seeds, chosen_by).best.values
            kept += [row for row in report.of_arm(arm) if row.seed == seed and _values(row) == values]
    return Table(tuple(kept))


# ---------------------------------------------------------------- one arm


def _choice(rows: Table, seeds: Sequence[int], metric: Metric) -> Choice:
    runs: dict[Values, list[Row]] = {}
    for row in rows:
        runs.setdefault(_values(row), []).append(row)
    grid = sorted(runs)
    curve = tuple(_point(runs[values], values, seeds, metric) for values in grid)
    whole = [point for point in curve if not math.isnan(point.score)]
    levels = rows.arms[0]
    if not whole:
        raise ConfigError(
            f"tuning {arm_name(levels)}: no value has a finished run in every tuning seed; run those again"
        )
    sign = -1 if metric.higher_is_better else 1
    best = min(whole, key=lambda point: sign * point.score)  # the first of equals: values are in order
    return Choice(levels, best, curve, _edges(best.values, grid))


def _point(rows: Sequence[Row], values: Values, seeds: Sequence[int], metric: Metric) -> Point:
    rows = [row for row in rows if row.state != "failed"]
    worst = -math.inf if metric.higher_is_better else math.inf
    scores = [row.values.get(metric.name, math.nan) for row in rows]
    diverged = sum(row.state == "diverged" or not math.isfinite(score) for row, score in zip(rows, scores, strict=True))
    if sorted(row.seed for row in rows) != sorted(seeds):
        return Point(values, math.nan, diverged)
    return Point(values, worst if diverged else math.fsum(scores) / len(scores), diverged)


def _edges(best: Values, grid: Sequence[Values]) -> dict[str, int]:
    edges = {}
    for index, (name, value) in enumerate(best):
        tried = {values[index][1] for values in grid}
        if len(tried) > 1 and value == max(tried):
            edges[name] = 1
        elif len(tried) > 1 and value == min(tried) and value != 0:  # below none there is nothing
            edges[name] = -1
    return edges


def _values(row: Row) -> Values:
    return tuple(row.tuned.items())


def _rounded(value: float, digits: int = 6) -> float:
    """A step of 3.1623 from 1e-3 should not be a number of seventeen digits."""
    return float(f"{value:.{digits}g}")
