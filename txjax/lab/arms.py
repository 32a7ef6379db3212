"""The arms of a study: a config for each combination of levels, matched, and proven to differ as declared only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.config.flags import load
from txjax.lab.study import Matched, Study, Tier
from txjax.lab.table import Level, arm_name
from txjax.models import build
from txjax.models.costs import count_parameters, train_flops_per_token
from txjax.schema import ConfigError, difference, flatten, with_values

# What a study's cells write: their figures. Neither texts nor states of the middle of a run are read by anybody.
QUIET = {"log.sample_tokens": 0, "train.checkpoint_every": None, "train.keep_last": 1}
TEST = 0.05  # share of a text that is held out for the test, on which no setting has been chosen
HELD_OUT = 1 << 15  # tokens of validation and of test: enough for differences between arms, which read the same ones


@dataclass(frozen=True)
class Arm:
    """levels: of each factor. config: with the study's seeds and tuned values yet to be set.
    consequences: what matching changed, {config path: (base, here)}.
    """

    levels: Mapping[str, Level]
    config: Config
    consequences: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return arm_name(self.levels)


@dataclass(frozen=True)
class Costs:
    """What an arm costs in each of the four ways in which arms may be matched, wall time apart."""

    parameters: int
    flops: float  # of the training run
    tokens: int


def base_config(study: Study, folder: Path, tier: Tier) -> Config:
    """The study's base with the tier's settings. A path is looked up beside the study's file, then from here."""
    base = study.base
    if not isinstance(base, Config):
        beside = folder / base
        base = load(str(beside if beside.is_file() else base))
    base = with_values(base, QUIET)
    if base.data.source.context is None:  # a text holds out no test, and too much
        test, held_out = base.data.test or TEST, base.data.held_out or max(1, HELD_OUT // base.context)
        base = with_values(base, {"data.test": test, "data.held_out": held_out})
    try:
        return with_values(base, study.tiers.get(tier, {}))
    except ConfigError as error:
        raise ConfigError(f"tiers: {tier}: {error}") from None


def resolve(
    study: Study,
    base: Config,
    with_vocab: Callable[[Config], Config] = lambda config: config,
    seconds_a_step: Callable[[Config], float] | None = None,
    known: Mapping[str, Mapping[str, int]] | None = None,
) -> list[Arm]:
    """Every arm, in the order of its levels.

    with_vocab: gives a config the vocabulary of its data, which counts of parameters need. seconds_a_step: measures
    a config's train step, for arms matched by wall time. known: what matching has found before, by arm: a measured
    time would give other steps, and other cells, at each start.
    ConfigError where a level names no field or makes no config, where arms differ in more than is declared, or where
    no value of the matching knob comes near enough.
    """
    arms = []
    for levels in study.arms:
        try:
            arms.append(Arm(levels, with_vocab(with_values(base, study.settings(levels)))))
        except ConfigError as error:
            raise ConfigError(f"arm {arm_name(levels)}: {error}") from None
    if study.matched is not None:
        found, first = known or {}, arms[0]
        arms = [
            with_knobs(arm, found[arm.name]) if arm.name in found else match(arm, first, study.matched, seconds_a_step)
            for arm in arms
        ]
    refuse_undeclared(study, arms)
    return arms


def refuse_undeclared(study: Study, arms: list[Arm]) -> None:
    """ConfigError where two arms differ in a config path that is neither a factor, nor declared, nor matched."""
    allowed = study.allowed | ({study.matched.by} if study.matched else set())
    for one, other in itertools.combinations(arms, 2):
        beyond = [
            path
            for path in difference(one.config, other.config)
            if not any(f"{path}.".startswith(f"{free}.") for free in allowed) and not _of_tokenizer(path, allowed)
        ]
        if beyond:
            raise ConfigError(
                f"factors: the arms {one.name!r} and {other.name!r} differ in {len(beyond)} undeclared settings, "
                f"{', '.join(beyond)}: let one factor change one setting, or name those that belong to it in declared"
            )


def _of_tokenizer(path: str, allowed: set[str]) -> bool:
    """The vocabularies follow the tokenizers and the data."""
    sizes = ("model.vocab_size", "model.encoder.vocab_size")
    return path in sizes and any(free.startswith("data.") for free in allowed)


def costs(config: Config) -> Costs:
    return Costs(parameters(config), flops(config), tokens(config))


def parameters(config: Config) -> int:
    return count_parameters(build(config.model).shapes())


def flops(config: Config) -> float:
    return train_flops_per_token(build(config.model), config.context) * tokens(config)


def tokens(config: Config) -> int:
    return config.train.steps * config.train.batch_size * config.context


def match(arm: Arm, reference: Arm, matched: Matched, seconds_a_step: Callable[[Config], float] | None = None) -> Arm:
    """The arm with the knob at the value that brings it nearest to the reference; monotone knobs only."""
    if arm is reference:
        return arm
    if matched.equal == "seconds":
        return match_seconds(arm, reference, seconds_a_step)
    measure = {"parameters": parameters, "flops": flops}[matched.equal]

    @cache
    def cost(value: int) -> float | None:
        try:
            config = with_values(arm.config, {matched.by: value})
        except ConfigError:
            return None  # not a value that the model can have
        return float(measure(config))

    target = float(measure(reference.config))
    start = flatten(arm.config).get(matched.by)
    if not isinstance(start, int):
        raise ConfigError(f"matched: {matched.by} must be a whole number of the config, got {start!r}")
    best = nearest_value(cost, target, start, matched.multiple)
    off = abs(cost(best) / target - 1) if cost(best) else float("inf")  # type: ignore[operator]
    if off > matched.tolerance:
        raise ConfigError(
            f"matched: no {matched.by} in steps of {matched.multiple} brings arm {arm.name!r} within "
            f"{matched.tolerance:.1%} of {target:,.0f} {matched.equal}: {best} misses it by {off:.1%}: take smaller "
            "steps, another knob, or a larger base"
        )
    return with_knobs(arm, {matched.by: best})


def match_seconds(arm: Arm, reference: Arm, seconds_a_step: Callable[[Config], float] | None) -> Arm:
    """The arm with as many steps as take as long as the reference's, by the speeds of now."""
    assert seconds_a_step is not None
    time = seconds_a_step(reference.config) * reference.config.train.steps
    return with_knobs(arm, {"train.steps": max(1, round(time / seconds_a_step(arm.config)))})


def with_knobs(arm: Arm, values: Mapping[str, int]) -> Arm:
    """The arm with what matching found, and what that changed."""
    before = flatten(arm.config)
    changed = {path: (before.get(path), value) for path, value in values.items() if before.get(path) != value}
    return replace(arm, config=with_values(arm.config, values), consequences=changed) if changed else arm


def nearest_value(cost: Callable[[int], float | None], target: float, start: int, multiple: int) -> int:
    """The multiple whose cost is nearest to the target, of a cost that grows with it; bisection between doublings."""
    low, high = 1, max(1, start // multiple)
    while (there := _valid(cost, high, multiple)) is None or there[1] < target:
        low, high = high, high * 2
        if high * multiple > 1 << 24:
            break
    while high - low > 1:
        middle = (low + high) // 2
        there = _valid(cost, middle, multiple)
        if there is None or there[1] >= target:
            high = middle
        else:
            low = middle
    # some values are none that the model can have: the nearest ones on both sides that are
    below = next((n for n in range(high, max(0, high - 64), -1) if cost(n * multiple) is not None), None)
    above = next((n for n in range(high + 1, high + 65) if cost(n * multiple) is not None), None)
    beneath = None if below is None else next((n for n in range(below - 1, 0, -1) if cost(n * multiple)), None)
    near = [n for n in (beneath, below, above) if n is not None]
    return multiple * min(near or [high], key=lambda n: (abs((cost(n * multiple) or 0.0) - target), n))


def _valid(cost: Callable[[int], float | None], number: int, multiple: int) -> tuple[int, float] | None:
    """The first number from here on that is a value at all, with its cost."""
    for n in range(number, number + 64):
        value = cost(n * multiple)
        if value is not None:
            return n, value
    return None
