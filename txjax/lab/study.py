"""The study: a question as one object. Factors, what is tuned, seeds, one metric, and what is predicted of it."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from txjax.config import Config
from txjax.lab.contrasts import bind, describe, source_of
from txjax.lab.readouts import Metric, final
from txjax.lab.table import Level, arm_name
from txjax.lab.tuning import refuse_coarse
from txjax.schema import ConfigError, nearest

Tier = Literal["smoke", "cpu", "device", "paper"]
TIERS: tuple[Tier, ...] = ("smoke", "cpu", "device", "paper")
SEEDS = {"smoke": 2, "cpu": 8, "device": 8, "paper": 8}
TUNING_SEEDS = 1000  # and on: never among the seeds that are reported
TRIAL_SEEDS = 2000  # and on: of what is only tried; seeds that were looked at before a study is registered are burnt
FEWEST = 6  # seeds for a verdict: the exact test of fewer has no outcome rare enough
Bundle = Mapping[Any, Mapping[str, Any]]
Measure = Callable[[Config, int], Mapping[str, float]]
Probe = Callable[[Any], Mapping[str, float]]


@dataclass(frozen=True)
class Prediction:
    """contrast: of txjax.lab.contrasts, or any function from a Seed to a number, positive as predicted.
    kind: direction, above 0; same, inside the margin around 0; at_least, above `least`.
    margin: the difference that nobody would care about, in the metric's unit; none: the metric's default.
    primary: counts in the family over which errors are controlled; others get an interval and no verdict.
    metric: another than the study's. claim: its number in docs/claims.toml.
    """

    name: str
    contrast: Any
    kind: Literal["direction", "same", "at_least"] = "direction"
    margin: float | None = None
    least: float | None = None
    primary: bool = True
    metric: Metric | None = None
    claim: str | None = None

    def __post_init__(self) -> None:
        if (self.kind == "at_least") != (self.least is not None):
            raise ConfigError(f"prediction {self.name!r}: kind at_least and the number `least` go together")
        if self.margin is not None and self.margin < 0:
            raise ConfigError(f"prediction {self.name!r}: margin must not be negative, got {self.margin}")
        if self.kind not in ("direction", "same", "at_least"):
            raise ConfigError(f"prediction {self.name!r}: kind must be direction, same or at_least, got {self.kind!r}")


@dataclass(frozen=True)
class Matched:
    """What is held equal between arms, and the knob that the lab turns for it, a config path of a whole number.

    equal: parameters, FLOPs of the whole training, or its wall time, whose knob is train.steps. Tokens are equal where
    steps, batch and context are. multiple: the knob goes in steps of it (a width in multiples of the heads, say).
    """

    equal: Literal["parameters", "flops", "seconds"]
    by: str
    multiple: int = 1
    tolerance: float = 0.005

    def __post_init__(self) -> None:
        if self.equal not in ("parameters", "flops", "seconds"):
            raise ConfigError(f"matched: equal must be parameters, flops or seconds, got {self.equal!r}")
        if self.equal == "seconds" and self.by != "train.steps":
            raise ConfigError(f"matched: wall time is matched by train.steps, got {self.by!r}")


@dataclass(frozen=True)
class Study:
    """base: a Config, or the path of a file with get_config(), beside the study's own or from here.
    factors: {config path: levels}, or {name: {level: {config path: value}}} where a level is several settings; all
        combinations are run.
    declared: further config paths in which arms may differ, because a level's several settings are one thing.
    tuned: {config path: values}, chosen for each arm on seeds of their own; all arms get the same values.
    metric: the primary one. tuned_by: by which the nuisances are chosen, on validation; none: the metric's figure.
    matched: what is held equal. tiers: {tier: {config path: value}} over the base.
    seeds, tuning_seeds: how many; none: 8, smoke 2; and 2.
    looks: 2 plans one extension to more seeds, and gives each look half of the error.
    probe: a function of a txjax.lab.execution.Trained -> figures of trained weights, read as probe/NAME.
    measure: a function (config, seed) -> figures instead of a training run, where nothing is trained.
    launches: each seed is a process of its own, in which all arms are measured in random order: for speeds.
    """

    question: str
    base: Config | str | Path
    factors: Mapping[str, Sequence[Level] | Bundle]
    predictions: Sequence[Prediction]
    metric: Metric = field(default_factory=final)
    tuned: Mapping[str, Sequence[float]] = field(default_factory=dict)
    tuned_by: Metric | None = None
    declared: Sequence[str] = ()
    matched: Matched | None = None
    tiers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeds: int | None = None
    tuning_seeds: int = 2
    looks: int = 1
    probe: Probe | None = None
    measure: Measure | None = None
    launches: bool = False

    def __post_init__(self) -> None:
        if not self.factors:
            raise ConfigError("factors: a study needs at least one factor with two levels")
        for name, levels in self.factors.items():
            if len(levels) < 2 or isinstance(levels, str):
                raise ConfigError(f"factors: {name} needs at least two levels, got {levels!r}")
        for path, values in self.tuned.items():
            if path.endswith("learning_rate"):
                refuse_coarse(path, values)
        names = [prediction.name for prediction in self.predictions]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"predictions: two are called {name!r}")
        for tier in self.tiers:
            if tier not in TIERS:
                raise ConfigError(f"tiers: {tier!r} must be one of {', '.join(TIERS)}{nearest(tier, TIERS)}")
        for prediction in self.predictions:
            try:
                bind(prediction.contrast, self.levels)
            except ConfigError as error:
                raise ConfigError(f"prediction {prediction.name!r}: {error}") from None

    def seeds_of(self, tier: Tier) -> int:
        """How many are reported: the study's own number is of every tier that gives verdicts."""
        return SEEDS[tier] if self.seeds is None or tier == "smoke" else self.seeds

    @property
    def levels(self) -> dict[str, tuple[Level, ...]]:
        return {name: tuple(levels) for name, levels in self.factors.items()}

    @property
    def arms(self) -> list[dict[str, Level]]:
        """Every combination of levels, by factor."""
        combinations = itertools.product(*self.levels.values())
        return [dict(zip(self.levels, levels, strict=True)) for levels in combinations]

    def settings(self, levels: Mapping[str, Level]) -> dict[str, Any]:
        """The config paths that an arm sets, with their values."""
        found: dict[str, Any] = {}
        for name, level in levels.items():
            options = self.factors[name]
            found |= dict(options[level]) if isinstance(options, Mapping) else {name: level}
        return found

    @property
    def allowed(self) -> set[str]:
        """The config paths in which arms may differ: a factor's own, and those that are declared."""
        plain = {name for name, levels in self.factors.items() if not isinstance(levels, Mapping)}
        single = set()
        for levels in self.factors.values():
            paths = {path for settings in levels.values() for path in settings} if isinstance(levels, Mapping) else ()
            single |= set(paths) if len(paths) == 1 else set()
        return plain | single | set(self.declared)

    @property
    def metrics(self) -> list[Metric]:
        """Every read-out that the predictions and their fallbacks need."""
        own = [p.metric for p in self.predictions if p.metric]
        wanted = [self.metric, *own, *([self.chosen_by] if self.tuned else [])]
        fallbacks = [metric.fallback for metric in wanted if metric.fallback]
        return list({metric.name: metric for metric in [*wanted, *fallbacks]}.values())

    @property
    def chosen_by(self) -> Metric:
        """The read-out of validation by which the nuisances are chosen; never steps to a threshold, in which all values
        are equal that never get there.
        """
        if self.tuned_by is not None:
            return self.tuned_by
        metric = self.metric.fallback or self.metric
        return dataclasses.replace(metric, figure=metric.figure.replace("test/", "val/"))

    @property
    def measured(self) -> list[str]:
        """The text of the functions that measure cells, with what of their file they rest on."""
        return [source_of(own) for own in (self.measure, self.probe) if own is not None]

    def registration(self, budget: Mapping[str, Any]) -> dict[str, Any]:
        """What may not change once a study has run; budget: seeds and steps of the tier."""
        return {
            "predictions": [
                {
                    "name": p.name,
                    "contrast": describe(p.contrast),
                    "kind": p.kind,
                    "margin": p.margin,
                    "least": p.least,
                    "primary": p.primary,
                    "metric": (p.metric or self.metric).name,
                    "claim": p.claim,
                }
                for p in self.predictions
            ],
            "metric": self.metric.name,
            "factors": {name: self._spelt_out(name) for name in self.levels},
            "tuned": {name: list(values) for name, values in self.tuned.items()},
            "tuned_by": self.chosen_by.name,
            "tuning_seeds": self.tuning_seeds if self.tuned else 0,
            "looks": self.looks,
            "measured": self.measured,
            "matched": None if self.matched is None else dataclasses.asdict(self.matched),
            "budget": dict(budget),
        }

    def _spelt_out(self, factor: str) -> dict[str, Any]:
        """What each level of a factor sets, as text."""
        options = self.factors[factor]
        if not isinstance(options, Mapping):
            return {str(level): str(level) for level in options}
        return {
            str(level): {path: str(value) for path, value in settings.items()} for level, settings in options.items()
        }


def digest(registration: Any) -> str:
    """Ten hexadecimal digits that name a registration, or a part of one."""
    return hashlib.sha256(json.dumps(registration, sort_keys=True).encode()).hexdigest()[:10]


__all__ = ["Matched", "Prediction", "Study", "arm_name", "digest"]
