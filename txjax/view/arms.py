"""Figures of arms: how each was tuned, what each costs, how a figure goes with the levels of a factor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txjax.view.style import INK, colour, finite, legend, log_scale, marker, sheet, shortened, svg

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class RateCurve:
    """points: (value that was tried, score); a score that is not finite is of a value that diverged. best: chosen."""

    arm: str
    points: Points
    best: float


def rates_plot(curves: Sequence[RateCurve], setting: str, score: str, name: str = "rates") -> str:
    """The score against a tuned setting for each arm, the chosen value in a ring, diverged ones as crosses above."""
    every = [value for curve in curves for value, _ in curve.points]
    with sheet(2.9) as (figure, (axes,)):
        if min(every) > 0:
            axes.set_xscale("log")
            axes.minorticks_off()
        axes.set_xticks(sorted(set(every)), [f"{value:.3g}" for value in sorted(set(every))])
        for index, curve in enumerate(curves):
            good = [(x, y) for x, y in curve.points if math.isfinite(y)]
            axes.plot(*_xy(good), color=colour(index), marker=marker(index), label=curve.arm)
            chosen = [point for point in good if point[0] == curve.best]
            axes.plot(*_xy(chosen), "o", color=INK, markersize=11, fillstyle="none")
        for index, curve in enumerate(curves):
            lost = [x for x, y in curve.points if not math.isfinite(y)]
            axes.plot(lost, [0.97] * len(lost), "x", color=colour(index), transform=axes.get_xaxis_transform())
        axes.set_xlabel(setting)
        axes.set_ylabel(score)
        legend(figure, axes)
        return svg(figure, name)


def costs_plot(costs: Mapping[str, Mapping[str, float]], name: str = "costs") -> str:
    """A panel for each kind of cost, a bar an arm, as a share of the first arm's. costs: {kind: {arm: amount}}."""
    arms = len(next(iter(costs.values())))
    with sheet(len(costs) * (0.32 + 0.25 * arms) + 0.2, len(costs)) as (figure, panels):
        for axes, (kind, amounts) in zip(panels, costs.items(), strict=True):
            _bars(axes, kind, amounts)
        return svg(figure, name)


def _bars(axes: Any, kind: str, amounts: Mapping[str, float]) -> None:
    first = next(iter(amounts.values()))
    most = max([*finite(list(amounts.values())), 0.0]) or 1.0
    for row, (arm, amount) in enumerate(amounts.items()):
        length = amount if math.isfinite(amount) else 0.0
        axes.barh(row, length, height=0.72, color=colour(row), alpha=0.8)
        said = _share(amount, first if row else math.nan)
        axes.text(length + 0.01 * most, row, f"{shortened(arm, 24)}  {said}", va="center", fontsize=8.5)
    axes.set_title(kind, fontsize=9, pad=2)
    axes.set_xlim(0, 2.1 * most)  # the names stand to the right of the bars
    axes.set_ylim(len(amounts) - 0.5, -0.5)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[["bottom", "left"]].set_visible(False)


def _share(amount: float, first: float) -> str:
    if not math.isfinite(amount):
        return "not known"
    return f"{compact(amount)}  ({amount / first:.1%})" if math.isfinite(first) and first else compact(amount)


def compact(amount: float) -> str:
    """80,416, but 1.85e+10."""
    if amount >= 1e9:
        return f"{amount:.3g}"
    return f"{amount:,.0f}" if amount >= 1000 or amount == int(amount) else f"{amount:.3g}"


@dataclass(frozen=True)
class LevelCurve:
    """values: {level: the values of its seeds}. theory: what is expected at each level, where there is a theory."""

    arm: str
    values: Mapping[float, Sequence[float]]
    theory: Points = ()


def levels_plot(curves: Sequence[LevelCurve], factor: str, figure_name: str, name: str = "levels") -> str:
    """A measured figure against the numeric levels of a factor, seeds as dots, means joined, theory dashed.

    On logarithmic axes where everything is positive: a power law is a straight line there.
    """
    levels = sorted({level for curve in curves for level in curve.values})
    values = [v for curve in curves for own in curve.values.values() for v in finite(list(own))]
    with sheet(3.0) as (figure, (axes,)):
        for index, curve in enumerate(curves):
            _level_curve(axes, index, curve)
        if min(levels) > 0:
            axes.set_xscale("log")
            axes.set_xticks(levels, [f"{level:g}" for level in levels])
            axes.minorticks_off()
        if values and min(values) > 0:
            log_scale(axes)
        axes.set_xlabel(factor)
        axes.set_ylabel(figure_name)
        legend(figure, axes)
        return svg(figure, name)


def _level_curve(axes: Any, index: int, curve: LevelCurve) -> None:
    means = []
    for level, values in sorted(curve.values.items()):
        known = finite(list(values))
        axes.plot([level] * len(known), known, marker(index), color=colour(index), alpha=0.4, markersize=3.5)
        if known:
            means.append((level, math.fsum(known) / len(known)))
    axes.plot(*_xy(means), color=colour(index), marker=marker(index), label=curve.arm)
    if curve.theory:
        axes.plot(*_xy(sorted(curve.theory)), "--", color=INK, linewidth=1.2, label=f"{curve.arm}, theory")


def _xy(points: Points) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]
