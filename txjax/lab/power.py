"""What a study can find with its seeds: before it runs in standard deviations, once tuned in the metric's unit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txjax.lab import statistics
from txjax.lab.evidence import gather
from txjax.lab.ledger import Ledger
from txjax.lab.study import FEWEST, Prediction, Study, Tier
from txjax.lab.table import Table, arm_key
from txjax.lab.tuning import Choice
from txjax.lab.verdicts import unit_and_margin
from txjax.schema import ConfigError

ANYWAY = "or run it with --anyway"


@dataclass(frozen=True)
class Plan:
    """seeds: that will be reported, at the first look. primary: the predictions that get a verdict."""

    seeds: int
    looks: int
    primary: tuple[Prediction, ...]

    @classmethod
    def of(cls, study: Study, seeds: int) -> Plan:
        return cls(seeds, study.looks, tuple(p for p in study.predictions if p.primary))

    @property
    def alpha(self) -> float:
        """Of Holm's first step, the strictest of the family."""
        return statistics.ALPHA / self.looks / max(1, len(self.primary))

    def smallest(self, kind: str, spread: float = 1.0) -> float:
        """The effect, or for `same` the margin, that the seeds find with 80 %."""
        found = statistics.detectable_margin if kind == "same" else statistics.detectable
        return found(self.seeds, spread, self.alpha)

    def lines(self) -> list[str]:
        """For the cost card, when no spread over seeds is known yet."""
        kinds = {"same" if p.kind == "same" else "effect" for p in self.primary}
        if not kinds or self.seeds < FEWEST:
            return []
        said = []
        if "effect" in kinds:
            least = self.smallest("effect")
            said.append(
                f"find effects from {least:.2f} s_d on" if math.isfinite(least) else "find no effect however large"
            )
        if "same" in kinds:
            said.append(f"show arms equal within {self.smallest('same'):.2f} s_d")
        level = f"level {self.alpha:.3g}" + (f", Holm over {len(self.primary)}" if len(self.primary) > 1 else "")
        about = "s_d: the standard deviation of the paired differences over seeds"
        return [f"power      {self.seeds} seeds {' and '.join(said)}, with 80 % ({level}; {about})"]

    def refuse_futile(self) -> None:
        """ConfigError where no primary prediction can be settled, whatever the cells come to."""
        if not self.primary:
            return
        exact = all(p.kind != "same" for p in self.primary)  # `same` is settled by Student's interval alone
        least = max(FEWEST, statistics.fewest(self.alpha)) if exact else FEWEST
        if self.seeds < least:
            count = len(self.primary)
            what = "the study's prediction" if count == 1 else f"any of the study's {count} predictions"
            raise ConfigError(
                f"{self.seeds} seeds can never settle {what}, at the level {self.alpha:.3g} a verdict needs {least}: "
                f"take --seeds={least}, {ANYWAY}"
            )


@dataclass(frozen=True)
class Outlook:
    """A prediction as the tuning seeds show it. numbers: of its contrast, one a tuning seed. spread: of them."""

    prediction: Prediction
    unit: str
    margin: float | None
    numbers: tuple[float, ...]
    spread: float

    @property
    def known(self) -> bool:
        """Whether the numbers say how far seeds lie apart."""
        return math.isfinite(self.spread) and self.spread > 0

    def needed(self, plan: Plan, spread: float) -> int | None:
        """The seeds that settle it with 80 %, one way or the other: by the effect that was seen, or the margin where
        that is larger, since below it nobody would care.
        """
        mean, margin = math.fsum(self.numbers) / len(self.numbers), self.margin or 0.0
        if self.prediction.kind == "at_least":
            return statistics.needed(abs(mean - (self.prediction.least or 0.0)), spread, plan.alpha)
        if self.prediction.kind == "direction":
            return statistics.needed(max(abs(mean), margin), spread, plan.alpha)
        equal = statistics.needed_for_equivalence(margin, spread, plan.alpha)
        apart = statistics.needed(abs(mean) - margin, spread, plan.alpha) if abs(mean) > margin else None
        return min((n for n in (equal, apart) if n is not None), default=None)

    def hopeless(self, plan: Plan) -> bool:
        """Whether even the least spread that the tuning seeds allow for leaves less than 80 %."""
        if not self.known:
            return False
        needed = self.needed(plan, statistics.least_spread(self.spread, len(self.numbers)))
        return needed is None or needed > plan.seeds * plan.looks

    def line(self, plan: Plan) -> str:
        if not self.known:
            return f"power      {self.prediction.name}: the tuning seeds do not tell how far seeds lie apart"
        what = "a margin" if self.prediction.kind == "same" else "an effect"
        margin = "" if self.margin is None else f"; its margin is {self.margin:.3g}"
        found = f"{plan.smallest(self.prediction.kind, self.spread):.2g} {self.unit}".rstrip()
        return (
            f"power      {self.prediction.name}: {plan.seeds} seeds find {what} of {found} with 80 %, by the spread "
            f"over {len(self.numbers)} tuning seeds{margin}"
        )


def outlooks(plan: Plan, study: Study, table: Table, choices: Sequence[Choice], tier: Tier) -> list[Outlook]:
    """Of every primary prediction, by the tuning cells at each arm's chosen values."""
    chosen = {arm_key(choice.levels): choice.tuned for choice in choices}
    rows = [row for row in table.phase("tuning") if dict(row.tuned) == chosen[arm_key(row.levels)]]
    tuned = Table(tuple(dataclasses.replace(row, phase="report") for row in rows))
    found = []
    for prediction in plan.primary:
        evidence = gather(tuned, prediction.contrast, prediction.metric or study.metric)
        spread = statistics.spread(evidence.numbers, evidence.floor)
        found.append(Outlook(prediction, *unit_and_margin(prediction, evidence, tier), evidence.numbers, spread))
    return found


def refuse_hopeless(plan: Plan, found: Sequence[Outlook], ledger: Ledger) -> None:
    """ConfigError where no primary prediction has a fair chance to be settled by so many seeds; the ledger notes it."""
    if not found or not all(outlook.hopeless(plan) for outlook in found):
        return
    needed: Mapping[str, Any] = {o.prediction.name: o.needed(plan, o.spread) for o in found}
    name, seeds = min(needed.items(), key=lambda item: item[1] or math.inf)
    if seeds is None:
        much, fix = f"not even {statistics.MOST_SEEDS} seeds", "widen its margin"
    else:
        much, fix = f"{seeds} seeds", f"take --seeds={seeds}, widen its margin"
    others = ", and the other predictions no fewer" if len(found) > 1 else ""
    why = (
        f"the study is hopeless with {plan.seeds} seeds: by the spread over its tuning seeds, {name!r} would take "
        f"{much}{others}: {fix}, {ANYWAY}"
    )
    ledger.refuse(why)
    raise ConfigError(why)
