"""Evidence: what a table says on one prediction. A number a seed, and what must be known to judge them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txjax.lab.contrasts import At, Contrast, Interaction, LogRatio, Slope, bind
from txjax.lab.readouts import Metric
from txjax.lab.statistics import correlation, mcnemar_p
from txjax.lab.table import ArmKey, Level, Row, Seed, Table, arm_key, arm_name
from txjax.schema import ConfigError, nearest

MOST_CENSORED = 0.25  # of an arm's runs; with more of them the steps to a threshold are no longer read
Cells = list[tuple[Mapping[str, Level], float]]
Runs = dict[ArmKey, dict[int, Row]]  # by arm and seed


@dataclass(frozen=True)
class Evidence:
    """metric: what was read. fell_back: because too many runs never crossed the threshold of what was asked for.
    numbers: of the contrast, one for each of `seeds`. missing: seeds without one, because a cell failed or never ran.
    floor: the standard deviation that the grain of the read-out alone gives the numbers.
    bounded: whether a cell that the contrast reads diverged or ran out of budget.
    arms: those that the contrast reads. divergences: runs of each arm, by name. mcnemar: p of equally many on the side
    that the contrast adds and on the one that it takes away. correlation: of the two sides over seeds.
    """

    metric: Metric
    fell_back: bool
    seeds: tuple[int, ...]
    numbers: tuple[float, ...]
    missing: tuple[int, ...]
    floor: float
    bounded: bool
    arms: frozenset[ArmKey]
    divergences: Mapping[str, int]
    mcnemar: float
    correlation: float | None


def gather(
    table: Table, contrast: Any, metric: Metric, trivial: float | None = None, planned: Sequence[int] = ()
) -> Evidence:
    """What the report rows say. trivial: the loss that a diverged run counts as; none: what its row knows of it.
    planned: the seeds there should be; none: those of the table.
    """
    table = table.phase("report")
    function = bind(contrast, table.factors)
    runs, levels = _runs(table), {arm_key(arm): arm for arm in table.arms}
    metric, fell_back = _readable(table, runs, metric)
    values = {key: _values(arm, metric, trivial, _budget(table, metric)) for key, arm in runs.items()}
    seeds = sorted({*table.seeds, *planned})
    # a cell that is missing is NaN, and so is the number of a contrast that reads it
    grid: dict[int, Cells] = {
        seed: [(levels[key], values[key].get(seed, math.nan)) for key in levels] for seed in seeds
    }
    numbers = {seed: function(Seed(cells)) for seed, cells in grid.items()}
    used = {seed: number for seed, number in numbers.items() if math.isfinite(number)}
    weights = dict(zip(levels, _weights(function, [grid[seed] for seed in used], len(levels)), strict=True))
    read = {key: arm for key, arm in runs.items() if weights[key]}
    return Evidence(
        metric,
        fell_back,
        tuple(used),
        tuple(used.values()),
        tuple(seed for seed in seeds if seed not in used),
        _floor(read, weights, metric),
        any(row.state == "diverged" or metric.name in row.censored for arm in read.values() for row in arm.values()),
        frozenset(read),
        {arm_name(levels[key]): len(_diverged(arm)) for key, arm in runs.items()},
        _mcnemar(read, weights),
        _correlation([grid[seed] for seed in used], list(weights.values())),
    )


def scale_of(contrast: Any, metric: Metric, tier: str) -> tuple[str, float | None]:
    """The unit of a contrast's numbers, and the margin that is conventional in it; None where there is none."""
    if isinstance(contrast, (At, Interaction)):
        return scale_of(contrast.of, metric, tier)
    if isinstance(contrast, LogRatio):
        return "log ratio", math.log(1.05)
    if isinstance(contrast, Slope):
        unit = scale_of(contrast.of, metric, tier)[0]
        return f"{unit} a factor e".strip(), None
    return (metric.unit, metric.default_margin(tier)) if hasattr(contrast, "bind") else ("", None)


# ---------------------------------------------------------------- values


def value_of(row: Row, metric: Metric, trivial: float | None = None, budget: float = math.nan) -> float:
    """A cell's value, with failures in it: NaN where a cell is missing.

    A run that diverged counts as the loss of a trivial predictor, as an accuracy of 0, as the whole budget of steps; so
    does one whose value is not finite.
    """
    value = row.values.get(metric.name, math.nan)
    if row.state == "failed":
        return math.nan
    if metric.readout == "steps_to":
        return value if math.isfinite(value) else budget
    if row.state == "finished" and math.isfinite(value):
        return value
    if metric.figure.endswith("accuracy"):
        return metric.transformed(0.0)
    if not metric.is_loss:
        return math.nan
    trivial = row.facts.get("trivial") if trivial is None else trivial
    if trivial is None:
        raise ConfigError(
            f"{arm_name(row.levels)}, seed {row.seed} diverged: give `trivial`, the loss that it counts as"
        )
    return metric.transformed(trivial)


def _runs(table: Table) -> Runs:
    runs: Runs = {}
    for row in table:
        arm = runs.setdefault(arm_key(row.levels), {})
        if row.seed in arm:
            raise ConfigError(
                f"{arm_name(row.levels)} has several rows at seed {row.seed}: cross_fit chooses one of them"
            )
        arm[row.seed] = row
    return runs


def _values(arm: Mapping[int, Row], metric: Metric, trivial: float | None, budget: float) -> dict[int, float]:
    return {seed: value_of(row, metric, trivial, budget) for seed, row in arm.items()}


def _budget(table: Table, metric: Metric) -> float:
    """What runs that ended before the threshold count as; NaN where none did."""
    bounds = (row.values[metric.name] for row in table if metric.name in row.censored)
    return max(filter(math.isfinite, bounds), default=math.nan)


def _readable(table: Table, runs: Runs, metric: Metric) -> tuple[Metric, bool]:
    """The metric, or its fallback where more than a quarter of the runs of any arm never crossed the threshold."""
    _require_logged(table, metric)
    if metric.fallback is None:
        return metric, False
    for arm in runs.values():
        ended = [row for row in arm.values() if row.state != "failed"]
        cut = [row for row in ended if metric.name in row.censored or not math.isfinite(row.values[metric.name])]
        if len(cut) > MOST_CENSORED * len(ended):
            _require_logged(table, metric.fallback)
            return metric.fallback, True
    return metric, False


def _require_logged(table: Table, metric: Metric) -> None:
    known = sorted({name for row in table for name in row.values})
    finished = [row for row in table if row.state == "finished"]
    if metric.name not in known:
        raise ConfigError(f"the table has no {metric.name!r}{nearest(metric.name, known)}: it has {', '.join(known)}")
    if finished and not any(math.isfinite(row.values.get(metric.name, math.nan)) for row in finished):
        raise ConfigError(f"no run that finished has logged {metric.name!r}: choose a figure that they log")


# ---------------------------------------------------------------- the two sides of a contrast


def _weights(function: Contrast, grid: Sequence[Cells], arms: int) -> list[float]:
    """The mean over seeds of a contrast's derivative in each arm's cell: 0 where it does not read an arm.

    Asked of the contrast itself, so that a function of the user's own needs to declare nothing.
    """
    if not grid:
        return [1.0] * arms
    mean = np.mean([_derivatives(function, cells) for cells in grid], axis=0)
    mean[np.abs(mean) < 1e-6 * np.max(np.abs(mean))] = 0.0  # rounding
    return [float(weight) for weight in mean]


def _derivatives(function: Contrast, cells: Cells) -> list[float]:
    base, found = function(Seed(cells)), []
    for index, (levels, value) in enumerate(cells):
        step = 1e-6 * max(1.0, abs(value))
        moved = [*cells[:index], (levels, value + step), *cells[index + 1 :]]
        found.append((function(Seed(moved)) - base) / step)
    return found


def _floor(runs: Runs, weights: Mapping[ArmKey, float], metric: Metric) -> float:
    """sqrt(sum of (w r)^2) over arms: their weight in the contrast times the root mean square grain of their cells."""
    total = 0.0
    for key, arm in runs.items():
        grains = [row.facts.get("resolution", {}).get(metric.name, 0.0) for row in arm.values()]
        total += weights[key] ** 2 * float(np.mean(np.square(grains)))
    return math.sqrt(total)


def _diverged(arm: Mapping[int, Row]) -> set[int]:
    return {seed for seed, row in arm.items() if row.state == "diverged"}


def _mcnemar(runs: Runs, weights: Mapping[ArmKey, float]) -> float:
    """Over seeds in which only the side that the contrast adds, or only the one that it takes away, diverged."""
    added = {seed for key, arm in runs.items() if weights[key] > 0 for seed in _diverged(arm)}
    taken = {seed for key, arm in runs.items() if weights[key] < 0 for seed in _diverged(arm)}
    return mcnemar_p(len(added - taken), len(taken - added))


def _correlation(grid: Sequence[Cells], weights: Sequence[float]) -> float | None:
    def total(cells: Cells, sign: int) -> float:
        parts = zip(weights, cells, strict=True)
        return math.fsum(abs(weight) * value for weight, (_, value) in parts if weight * sign > 0)

    return correlation([total(cells, 1) for cells in grid], [total(cells, -1) for cells in grid])
