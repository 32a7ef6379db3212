"""The cost card: what a study will take, and what it can find, before it is launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txjax.lab.arms import Arm, Costs, costs
from txjax.lab.power import Plan
from txjax.schema import ConfigError

EVALUATIONS = 1.15  # of the time of the steps alone: evaluations, folders, checkpoints


@dataclass(frozen=True)
class CostCard:
    """cells: of training. compiles: distinct programs. minutes: predicted, of what is still missing; None where
    nothing is trained, since only a run tells. plan: what so many seeds can find.
    """

    cells: int
    missing: int
    compiles: int
    minutes: float | None
    arms: tuple[tuple[Arm, Costs], ...]
    plan: Plan

    def lines(self) -> list[str]:
        flops = sum(cost.flops for _, cost in self.arms)
        first = f"cost       {self.cells} cells, {self.missing} to run, {self.compiles} programs"
        if self.minutes is not None:
            first += f", about {self.minutes:.1f} minutes"
        rows = [
            f"           {arm.name}: {cost.parameters:,} parameters, {cost.flops:.3g} training FLOPs, {cost.tokens:,} "
            f"tokens a run" + "".join(f", {path} {old} -> {new}" for path, (old, new) in arm.consequences.items())
            for arm, cost in self.arms
        ]
        return [first, *(rows if flops else []), *self.plan.lines()]

    def refuse(self, limit: float | None) -> None:
        """ConfigError where the study takes longer than the limit in minutes."""
        if limit is not None and self.minutes is not None and self.minutes > limit:
            raise ConfigError(
                f"the study would take about {self.minutes:.0f} minutes, more than the {limit:g} of its tier: lower "
                f"train.steps to {limit / self.minutes:.0%} of it, take fewer levels or seeds, or run it with --anyway"
            )


def predicted_minutes(phases: Sequence[tuple[float, float]]) -> float:
    """Of phases that take these seconds to compile, and to train."""
    return sum(compiling + EVALUATIONS * training for compiling, training in phases) / 60


def arms_with_costs(arms: Sequence[Arm], measured: bool) -> tuple[tuple[Arm, Costs], ...]:
    return tuple((arm, Costs(0, 0.0, 0) if measured else costs(arm.config)) for arm in arms)
