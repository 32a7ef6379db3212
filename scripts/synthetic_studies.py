"""Synthetic studies of five arms, from which scripts/calibrate.py learns how often verdicts err.

`base` and three others have the same loss at their best learning rate, so that every verdict that sets one of these
above or below the base is an error; `worse` is worse by 1.16 standard deviations of the difference, which 8 seeds find
with 80 %.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from txjax.lab.readouts import Metric, final, steps_to
from txjax.lab.study import TUNING_SEEDS
from txjax.lab.table import Level, Phase, Row, Table
from txjax.lab.tuning import Choice, choose, extension

ARMS = ("base", "null 1", "null 2", "null 3", "worse")
RATE, PLANNED, BEST = "optim.learning_rate", (3e-4, 1e-3, 3e-3), 1e-3
SEEDS, SHARED = 8, 0.5  # SHARED: of the variance, which arms have in common at a seed
EFFECT = 1.16 * math.sqrt(2 * (1 - SHARED))
SHARP, FLAT = 10.0, 0.01  # what a rate sqrt(10) off costs, in standard deviations of a run
Noise = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.standard_normal(n)


def lognormal(rng: np.random.Generator, n: int) -> np.ndarray:
    """exp of a standard normal, moved and scaled to mean 0 and standard deviation 1."""
    return (np.exp(rng.standard_normal(n)) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def bimodal(rng: np.random.Generator, n: int) -> np.ndarray:
    """Runs that either find the solution or do not, as those without 1/sqrt(d_k)."""
    return rng.choice((-1.0, 1.0), n) * 0.98 + 0.2 * rng.standard_normal(n)


@dataclass(frozen=True)
class Scenario:
    """own: noise of base and of the other arms. scale: of the others' noise. costs: of a rate sqrt(10) off, for base
    and the others. tuning: seeds. held: whether the promises are demanded, or the error only shown.
    """

    name: str
    own: tuple[Noise, Noise] = (normal, normal)
    scale: float = 1.0
    costs: tuple[float, float] = (SHARP, SHARP)
    censored: float = 0.0
    tuning: int = 2
    held: bool = True


SCENARIOS = (
    Scenario("normal"),
    Scenario("lognormal, sigma 1", (lognormal, lognormal)),
    Scenario("bimodal", (bimodal, bimodal)),
    Scenario("30 % censored", censored=0.3),
    Scenario("unequal variance", scale=3.0),
    Scenario("flat against sharp rate curves", costs=(FLAT, SHARP)),
    Scenario("skewed against normal", (lognormal, normal), held=False),
    Scenario("rate curves that two seeds do not resolve", costs=(1.0, 1.0), held=False),
    Scenario("the same curves, eight tuning seeds", costs=(1.0, 1.0), tuning=8, held=False),
)


@dataclass(frozen=True)
class Simulation:
    """One synthetic study. Every run is drawn once: what a seed gives does not depend on what else is asked."""

    scenario: Scenario
    seed: int

    @property
    def stream(self) -> int:
        return zlib.crc32(self.scenario.name.encode())

    @property
    def metric(self) -> Metric:
        return steps_to("val/accuracy", 0.9) if self.scenario.censored else final("test/loss")

    @property
    def chosen_by(self) -> Metric:
        return self.metric.fallback or final("val/loss")

    def cost(self, arm: str, rate: float) -> float:
        """What a rate costs in standard deviations of a run: quadratic in its logarithm."""
        return self.scenario.costs[arm != "base"] * (math.log(rate / BEST) / math.log(math.sqrt(10))) ** 2

    def runs(self, arm: str, rate: float, first: int, count: int, phase: Phase) -> list[Row]:
        """The rows of an arm at a rate for seeds first, first + 1, ..."""
        scenario, index = self.scenario, ARMS.index(arm)
        shared = normal(np.random.default_rng((self.stream, self.seed, first)), count)
        rng = np.random.default_rng((self.stream, self.seed, first, index + 1, round(1e9 * rate)))
        own = scenario.own[arm != "base"](rng, count) * (scenario.scale if arm != "base" else 1.0)
        value = self.cost(arm, rate) + EFFECT * (arm == "worse") + math.sqrt(SHARED) * shared
        value = value + math.sqrt(1 - SHARED) * own
        val, test = value + 0.2 * normal(rng, count), value + 0.2 * normal(rng, count)
        return [self._row(arm, rate, first + i, phase, float(val[i]), float(test[i])) for i in range(count)]

    def _row(self, arm: str, rate: float, seed: int, phase: Phase, val: float, test: float) -> Row:
        levels: dict[str, Level] = {"arm": arm}
        if self.metric.fallback is None:
            return Row(levels, seed, {"val/loss": val, "test/loss": test}, phase=phase, tuned={RATE: rate})
        budget = float(special.ndtri(1 - self.scenario.censored)) * math.sqrt(1.04)  # of runs at the best rate
        values = {self.metric.name: min(val, budget), self.metric.fallback.name: test}
        censored = (self.metric.name,) if val > budget else ()
        return Row(levels, seed, values, phase=phase, tuned={RATE: rate}, censored=censored)

    def tune(self) -> list[Choice]:
        """The choices, after the grid has been extended for all arms where one asks for it."""
        tried = {RATE: list(PLANNED)}
        rows = [row for rate in PLANNED for row in self._tuning(rate)]
        while more := extension(choices := choose(Table(tuple(rows)), self.chosen_by), {RATE: PLANNED}, tried):
            tried[RATE] += more[RATE]
            rows += [row for rate in more[RATE] for row in self._tuning(rate)]
        return choices

    def _tuning(self, rate: float) -> list[Row]:
        return [row for arm in ARMS for row in self.runs(arm, rate, TUNING_SEEDS, self.scenario.tuning, "tuning")]

    def report(self, rates: dict[str, float]) -> Table:
        return Table(tuple(row for arm in ARMS for row in self.runs(arm, rates[arm], 0, SEEDS, "report")))

    def best_of_reported(self) -> Table:
        """What is wrong: the rates that look best on the very seeds that are reported."""
        rates = {}
        for arm in ARMS:
            means = {
                rate: np.mean([r.values["test/loss"] for r in self.runs(arm, rate, 0, SEEDS, "report")])
                for rate in PLANNED
            }
            rates[arm] = min(means, key=means.__getitem__)
        return self.report(rates)
