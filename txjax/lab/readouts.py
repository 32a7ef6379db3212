"""Read-outs: one number of a run's metrics, by a rule that is fixed before it runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from txjax.schema import ConfigError, nearest

Transform = Literal["none", "log", "logit", "error"]
# What a training run logs, where its config and data have it.
LOGGED = (
    *(f"train/{name}" for name in ("loss", "grad_norm", "update_to_weight", "tokens_per_second", "mfu", "memory_gib")),
    *(f"{split}/{name}" for split in ("val", "test") for name in ("loss", "accuracy", "perplexity", "bits_per_byte")),
)
LAST_SHARE = 0.05  # of the steps, over which a final value is averaged


@dataclass(frozen=True)
class Reading:
    """value: NaN where the run never logged the figure. resolution: the grain of the value: what a spread over seeds
    is bounded below by. censored: the value is a bound, since the budget ended first.
    """

    value: float
    resolution: float = 0.0
    censored: bool = False


@dataclass(frozen=True)
class Metric:
    """figure: as the run logs it: train/loss, val/accuracy, test/loss, or one that the study measures itself.
    readout: final, the mean over the last 5 % of the steps; area, the mean over all steps; steps_to, the first step at
    which the figure has crossed `threshold`, or the budget, censored.
    transform: of the value: log for times and steps, logit for accuracies, error is one minus an accuracy.
    """

    figure: str
    readout: Literal["final", "area", "steps_to"] = "final"
    threshold: float | None = None
    transform: Transform = "none"

    @property
    def name(self) -> str:
        what = f"steps to {self.figure} {self.threshold:g}" if self.threshold is not None else self.figure
        area = "area under " if self.readout == "area" else ""
        return {"none": "", "log": "log ", "logit": "logit ", "error": "error of "}[self.transform] + area + what

    @property
    def fallback(self) -> Metric | None:
        """What is read where too many runs never cross the threshold: an area, which is lower where steps are fewer."""
        if self.readout != "steps_to":
            return None
        return Metric(self.figure, "area", transform="none" if self.is_loss else "error")

    @property
    def is_loss(self) -> bool:
        return self.figure.endswith("loss")

    @property
    def higher_is_better(self) -> bool:
        return self.figure.endswith("accuracy") and self.readout != "steps_to" and self.transform != "error"

    @property
    def unit(self) -> str:
        if self.transform == "log":
            return "log ratio"
        if self.transform == "logit":
            return "logits"
        return "nats" if self.is_loss else "accuracy" if self.figure.endswith("accuracy") else ""

    def default_margin(self, tier: str) -> float | None:
        """The margin of what nobody would care about: of a loss .01 nats (.02 at tier cpu and below), of an accuracy
        1 point, of a time or an area as a log 5 %; None where there is no such convention.
        """
        if self.transform == "log":
            return math.log(1.05)
        if self.transform == "logit":
            return None
        if self.is_loss:
            return 0.01 if tier in ("device", "paper") else 0.02
        return 0.01 if self.figure.endswith("accuracy") else None

    def read(self, rows: Sequence[Mapping[str, Any]], budget: int) -> Reading:
        """rows: of metrics.jsonl. budget: the steps that the run was given."""
        points = [(int(row["step"]), float(row[self.figure])) for row in rows if row.get(self.figure) is not None]
        if not points:
            return Reading(math.nan)
        if self.readout == "steps_to":
            return self._steps_to(points, budget)
        if self.readout == "final":
            points = [p for p in points if p[0] > budget * (1 - LAST_SHARE)] or points[-1:]
        return Reading(self.transformed(math.fsum(value for _, value in points) / len(points)))

    def transformed(self, value: float) -> float:
        if not math.isfinite(value) or self.transform == "none":
            return value
        if self.transform == "error":
            return 1 - value
        if self.transform == "log":
            return math.log(value) if value > 0 else -math.inf
        edge = 1e-3  # of an accuracy of 1, which has no logit: half an error in 500
        return math.log(max(value, edge) / max(1 - value, edge))

    def _steps_to(self, points: Sequence[tuple[int, float]], budget: int) -> Reading:
        assert self.threshold is not None
        gap = points[0][0] if len(points) == 1 else max(b[0] - a[0] for a, b in itertools.pairwise(points))
        for step, value in points:
            if value <= self.threshold if self.is_loss else value >= self.threshold:
                grain = gap / step if self.transform == "log" else gap
                return Reading(self.transformed(step), grain / math.sqrt(12))
        return Reading(self.transformed(budget), gap / math.sqrt(12), censored=True)


def final(figure: str = "test/loss", transform: Transform = "none") -> Metric:
    """The mean of a figure over the last 5 % of the steps."""
    return Metric(figure, "final", transform=transform)


def area_under(figure: str = "train/loss", transform: Transform = "none") -> Metric:
    """The mean of a figure over all of training: low where learning is fast."""
    return Metric(figure, "area", transform=transform)


def steps_to(figure: str, threshold: float) -> Metric:
    """The logarithm of the steps until a figure has crossed a threshold; the budget where it never does."""
    if not isinstance(threshold, (int, float)):
        raise ConfigError(f"steps_to needs a number as threshold, got {threshold!r}")
    return Metric(figure, "steps_to", float(threshold), "log")


def refuse_unlogged(metrics: Sequence[Metric]) -> None:
    """ConfigError for a figure that no training run logs."""
    for metric in metrics:
        if metric.figure not in LOGGED and not metric.figure.startswith("probe/"):
            raise ConfigError(
                f"metric: a run logs no {metric.figure!r}{nearest(metric.figure, LOGGED)}: one of {', '.join(LOGGED)}"
            )
