"""Figures of effects: the forest of a study's predictions, dots by seed, paired differences over training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from txjax.view.forest import Interval
from txjax.view.style import INK, colour, finite, marker, sheet, shortened, svg

TONES = {"reproduced": "#009e73", "reversed": "#d55e00"}  # other words are said in ink
ROW = 0.52  # inches of a line of the forest


def forest_plot(intervals: Sequence[Interval], name: str = "forest") -> str:
    """A line an interval: the mean, the interval, zero, and the margins as a band. Each unit has axes of its own."""
    units = list(dict.fromkeys(one.unit for one in intervals))
    groups = [[one for one in intervals if one.unit == unit] for unit in units]
    heights = [ROW * len(group) + 0.5 for group in groups]
    with sheet(sum(heights), len(groups), height_ratios=heights) as (figure, panels):
        for axes, unit, group in zip(panels, units, groups, strict=True):
            _forest(axes, unit, group)
        return svg(figure, name)


def _forest(axes: Any, unit: str, group: Sequence[Interval]) -> None:
    ends = finite([end for one in group for end in (one.low, one.high, one.mean)])
    margins = [one.margin for one in group if one.margin]
    for row, one in enumerate(group):
        if one.margin:
            axes.fill_between([-one.margin, one.margin], row - 0.2, row + 0.22, color=INK, alpha=0.13, linewidth=0)
        tone = TONES.get(one.label.partition(" ")[0], INK)
        if math.isfinite(one.low) and math.isfinite(one.high):
            axes.plot([one.low, one.high], [row, row], color=tone, linewidth=2.2, solid_capstyle="butt")
        if math.isfinite(one.mean):
            axes.plot([one.mean], [row], "o", color=tone, markersize=6.5)
        said = f"{shortened(one.prediction, 34)} · {one.label}"
        axes.text(0, row - 0.27, said, transform=axes.get_yaxis_transform(), fontsize=9, va="bottom")
        axes.plot([0, 0], [row - 0.2, row + 0.22], color=INK, linewidth=1)  # not across the words
    axes.set_ylim(len(group) - 0.65, -0.7)
    low, high = min([0.0, *ends, *(-m for m in margins)]), max([0.0, *ends, *margins])
    room = 0.06 * (high - low or 1.0)
    axes.set_xlim(low - room, high + room)
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(unit)


def seeds_plot(values: Mapping[str, Mapping[int, float]], unit: str, name: str = "seeds") -> str:
    """A dot a cell, the arms side by side, a line through the dots of each seed: what pairing by seed sees.

    values: {arm: {seed: value}}.
    """
    arms, seeds = list(values), sorted({seed for arm in values.values() for seed in arm})
    with sheet(2.9) as (figure, (axes,)):
        for seed in seeds:
            points = [values[arm].get(seed, math.nan) for arm in arms]
            axes.plot(range(len(arms)), points, color=INK, alpha=0.3, linewidth=0.8, zorder=1)
        for place, arm in enumerate(arms):
            points = finite(list(values[arm].values()))
            axes.plot([place] * len(points), points, marker(place), color=colour(place), alpha=0.9, zorder=2)
            if points:
                mean = math.fsum(points) / len(points)
                axes.plot([place - 0.16, place + 0.16], [mean, mean], color=INK, linewidth=2, zorder=3)
        axes.set_xlim(-0.5, len(arms) - 0.5)
        axes.set_ylabel(unit)
        name_arms(axes, arms)
        axes.grid(axis="x", visible=False)
        return svg(figure, name)


def name_arms(axes: Any, arms: Sequence[str]) -> None:
    """The arms' names under their places: aslant where they would not stand side by side."""
    room = 52 // max(1, len(arms))
    long = any(len(arm) > room for arm in arms)
    labels = [shortened(arm, 30) for arm in arms]
    axes.set_xticks(range(len(arms)), labels, rotation=30 if long else 0, ha="right" if long else "center")
    axes.tick_params(axis="x", length=0)


def difference_plot(
    steps: Sequence[float],
    mean: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    unit: str,
    margin: float | None = None,
    name: str = "difference",
) -> str:
    """The paired difference over training with the band of its interval: bands of single arms, which overlap while
    their difference is certain, mislead.
    """
    with sheet(2.6) as (figure, (axes,)):
        if margin:
            axes.axhspan(-margin, margin, color=INK, alpha=0.13, linewidth=0)
        axes.axhline(0, color=INK, linewidth=1)
        axes.fill_between(steps, low, high, color=colour(0), alpha=0.25, linewidth=0)
        axes.plot(steps, mean, color=colour(0), marker="o" if len(steps) < 25 else None, markersize=3)
        axes.set_xlabel("step")
        axes.set_ylabel(unit)
        return svg(figure, name)
