"""Curves over training: of arms, and of what a prediction contrasts, step by step, with intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from txjax.lab.contrasts import Contrast, bind
from txjax.lab.readouts import Metric
from txjax.lab.statistics import ALPHA, t_interval
from txjax.lab.study import Prediction, Study
from txjax.lab.table import ArmKey, Level, Seed, Table, arm_key
from txjax.lab.verdicts import Verdict
from txjax.probe.training import FIGURES
from txjax.store.metrics import read_rows

MOST_POINTS = 200  # of a curve; what a figure cannot show is not kept


@dataclass(frozen=True)
class Band:
    """The mean over seeds at each step, and the ends of its interval."""

    steps: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Histories:
    """What the report cells of a study logged. rows: of metrics.jsonl, by arm and seed; none where nothing trained."""

    table: Table
    rows: Mapping[tuple[ArmKey, int], Sequence[Mapping[str, float | None]]]

    @classmethod
    def read(cls, table: Table, cells: Path) -> Histories:
        table = table.phase("report")
        rows = {
            (arm_key(row.levels), row.seed): read_rows(cells / str(row.facts.get("cell")) / "metrics.jsonl")
            for row in table
        }
        return cls(table, rows)

    def points(self, figure: str) -> dict[int, dict[tuple[ArmKey, int], float]]:
        """{step: {cell: value}}, where the figure was logged and finite."""
        found: dict[int, dict[tuple[ArmKey, int], float]] = {}
        for cell, rows in self.rows.items():
            for row in rows:
                value = row.get(figure)
                if value is not None and math.isfinite(value):
                    found.setdefault(int(row["step"] or 0), {})[cell] = float(value)
        return dict(sorted(found.items()))

    def probed(self) -> list[str]:
        """The figures of probes that were logged while training, by name and layer."""
        return list(dict.fromkeys(name for rows in self.rows.values() for row in rows for name in row if _probed(name)))

    def figure_for(self, metric: Metric) -> str | None:
        """What shows a metric while it comes about: its own figure, the validation's, or that of training; None where
        none was logged more than once.
        """
        _, _, kind = metric.figure.partition("/")
        wanted = dict.fromkeys([metric.figure, f"val/{kind}", f"train/{kind}", "train/loss"])
        return next((figure for figure in wanted if len(self.points(figure)) > 1), None)


def _probed(figure: str) -> bool:
    return figure.startswith(FIGURES) and "/layer_" in figure


def arm_band(histories: Histories, levels: ArmKey, figure: str) -> Band | None:
    """An arm's mean over its seeds."""
    numbers = {
        step: [value for (arm, _), value in cells.items() if arm == levels]
        for step, cells in histories.points(figure).items()
    }
    return _band(numbers, ALPHA)


def contrast_band(
    histories: Histories, prediction: Prediction, metric: Metric, figure: str, alpha: float
) -> Band | None:
    """The prediction's contrast at each step: of each seed first, then its mean over seeds."""
    table = histories.table
    contrast = bind(prediction.contrast, table.factors)
    levels = {arm_key(arm): arm for arm in table.arms}
    transform = Metric(figure, transform=metric.transform) if metric.readout != "steps_to" else Metric(figure)
    numbers: dict[int, list[float]] = {}
    for step, cells in histories.points(figure).items():
        for seed in table.seeds:
            values = {arm: transform.transformed(cells.get((arm, seed), math.nan)) for arm in levels}
            if all(map(math.isfinite, values.values())):
                numbers.setdefault(step, []).extend(_number(contrast, [(levels[arm], v) for arm, v in values.items()]))
    return _band(numbers, alpha)


def prediction_bands(
    histories: Histories, study: Study, verdicts: Sequence[Verdict]
) -> Iterator[tuple[Prediction, str, Band]]:
    """Each prediction of which there is a curve, with the figure that it was made of, at its verdict's level."""
    for prediction, verdict in zip(study.predictions, verdicts, strict=True):
        metric = prediction.metric or study.metric
        figure = histories.figure_for(metric)
        band = contrast_band(histories, prediction, metric, figure, verdict.alpha) if figure else None
        if figure and band:
            yield prediction, figure, band


def _number(contrast: Contrast, cells: Sequence[tuple[Mapping[str, Level], float]]) -> list[float]:
    """One number, or none where there is none yet: the logarithm of an accuracy of 0, say."""
    try:
        number = contrast(Seed(cells))
    except (ArithmeticError, ValueError):
        return []
    return [number] if math.isfinite(number) else []


def _band(numbers: Mapping[int, Sequence[float]], alpha: float) -> Band | None:
    """None where fewer than two steps have a number."""
    steps = [step for step, values in numbers.items() if values]
    if len(steps) < 2:
        return None
    every = math.ceil(len(steps) / MOST_POINTS)
    steps = sorted({*steps[::every], steps[-1]})
    means = [math.fsum(numbers[step]) / len(numbers[step]) for step in steps]
    ends = [t_interval(numbers[step], alpha) for step in steps]
    ends = [(mean, mean) if math.isnan(low) else (low, high) for mean, (low, high) in zip(means, ends, strict=True)]
    return Band(tuple(steps), tuple(means), tuple(low for low, _ in ends), tuple(high for _, high in ends))
