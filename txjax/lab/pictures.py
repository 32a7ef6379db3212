"""The figures of a study's report, from its results to view's functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from txjax.lab.record import THEORY, Results
from txjax.view import document as doc
from txjax.view.arms import LevelCurve, RateCurve, costs_plot, levels_plot, rates_plot
from txjax.view.effects import difference_plot, forest_plot, seeds_plot

MOST_CURVES = 6


def forest(results: Results) -> list[doc.Block]:
    if not results.verdicts:
        return []
    about = "Mean and interval of each contrast; the band is the margin, a difference that nobody would care about."
    return [doc.Figure("forest", forest_plot(results.verdicts), about)]


def numbers(results: Results) -> list[doc.Figure]:
    """Dots by seed for each metric, and the paired difference over training for each prediction."""
    found = []
    for index, entry in enumerate(results.facts["seeds"]):
        values = {arm: {int(s): _real(v) for s, v in own.items()} for arm, own in entry["arms"].items()}
        label = " in ".join(filter(None, (entry["metric"], entry["unit"])))
        about = f"{entry['metric']} of every cell; a line joins the arms of a seed, a bar is an arm's mean."
        name = f"seeds{index or ''}"
        found.append(doc.Figure(name, seeds_plot(values, label, name), about))
    judged = {verdict.prediction: verdict for verdict in results.verdicts}
    for index, curve in enumerate(results.facts["curves"][:MOST_CURVES]):
        verdict = judged[curve["prediction"]]
        margin = verdict.margin if verdict.metric.endswith(curve["figure"].partition("/")[2]) else None
        about = (
            f"{curve['prediction']}: the contrast of {curve['figure']} over training, each seed with itself; the band "
            f"is the interval at {1 - verdict.alpha:.4g}."
        )
        name = f"difference{index or ''}"
        ends = (curve["steps"], curve["mean"], curve["low"], curve["high"])
        label = f"{curve['figure']}, {verdict.unit}" if verdict.unit else curve["figure"]
        found.append(doc.Figure(name, difference_plot(*ends, label, margin, name), about))
    return found


def levels(results: Results) -> list[doc.Figure]:
    """What was measured against the levels of each numeric factor, and theory where the study gives one."""
    entries = results.facts["levels"]
    theories = {(e["factor"], e["figure"]): e["curves"] for e in entries if e["figure"].startswith(THEORY)}
    found = []
    for index, entry in enumerate(e for e in entries if not e["figure"].startswith(THEORY)):
        theory = theories.get((entry["factor"], THEORY + entry["figure"]), {})
        # an arm that no other factor tells apart bears the figure's name, on either side
        named = {arm.removeprefix(THEORY): _level_values(values) for arm, values in theory.items()}
        curves = [
            LevelCurve(arm, _level_values(own), _means(named.get(arm, {}))) for arm, own in entry["curves"].items()
        ]
        about = f"{entry['figure']} against {entry['factor']}" + (", theory dashed." if theory else ".")
        name = f"levels{index or ''}"
        found.append(doc.Figure(name, levels_plot(curves, entry["factor"], entry["figure"], name), about))
    return found


def probes(facts: Mapping[str, Any]) -> list[doc.Figure]:
    """Each probe over training, by arm: the mean over layers, and theory where there is one."""
    entries = facts.get("probes", [])
    found = []
    for index, name in enumerate(dict.fromkeys(entry["probe"] for entry in entries)):
        own = [entry for entry in entries if entry["probe"] == name]
        curves = [LevelCurve(e["arm"], _over_layers(e["layers"]), _flat(e)) for e in own]
        about = f"{name} over training, the mean over layers" + (
            "; theory dashed." if any(e["theory"] is not None for e in own) else "."
        )
        figure = f"probes{index or ''}"
        found.append(doc.Figure(figure, levels_plot(curves, "step", name, figure), about))
    return found


def _over_layers(layers: Mapping[str, Mapping[str, float | None]]) -> dict[float, list[float]]:
    """{step: one value, the mean over layers}."""
    steps = dict.fromkeys(step for curve in layers.values() for step in curve)
    values = {step: [_real(curve[step]) for curve in layers.values() if step in curve] for step in steps}
    return {float(step): [math.fsum(own) / len(own)] for step, own in values.items()}


def _flat(entry: Mapping[str, Any]) -> list[tuple[float, float]]:
    steps = [float(step) for curve in entry["layers"].values() for step in curve]
    return [] if entry["theory"] is None else [(end, entry["theory"]) for end in (min(steps), max(steps))]


def _level_values(values: Mapping[str, list[float | None]]) -> dict[float, list[float]]:
    return {float(level): [_real(value) for value in own] for level, own in values.items()}


def _means(values: Mapping[float, list[float]]) -> list[tuple[float, float]]:
    return [(level, math.fsum(own) / len(own)) for level, own in values.items()]


def rates(results: Results) -> list[doc.Figure]:
    """A figure for each tuned setting, at the best of the other settings."""
    choices = results.facts["choices"]
    found = []
    for index, path in enumerate(choices[0]["best"]):
        curves = [
            RateCurve(c["arm"], _profile(c, path, results.facts["higher_is_better"]), c["best"][path]) for c in choices
        ]
        name = f"rates{index or ''}"
        plot = rates_plot(curves, path, str(results.facts["chosen_by"]), name)
        about = (
            f"{results.facts['chosen_by']} against {path}; a ring marks the value chosen, a cross one that diverged."
        )
        found.append(doc.Figure(name, plot, about))
    return found


def _profile(choice: Mapping[str, Any], path: str, higher: bool) -> list[tuple[float, float]]:
    best: dict[float, float] = {}
    for point in choice["curve"]:
        score, value = _real(point["score"]), point["values"][path]
        known = best.get(value, math.nan)
        better = math.isnan(known) or (score > known if higher else score < known)
        best[value] = score if better else known
    return sorted(best.items())


def costs(facts: Mapping[str, Any]) -> list[doc.Figure]:
    kinds = {"parameters": "parameters", "flops": "training FLOPs", "tokens": "tokens", "seconds": "seconds, median"}
    known = {
        said: {arm["name"]: _real(arm[kind]) for arm in facts["arms"]}
        for kind, said in kinds.items()
        if any(arm[kind] for arm in facts["arms"])
    }
    if not known:
        return []
    about = "What a run of each arm costs; in brackets the share of the first arm's."
    return [doc.Figure("costs", costs_plot(known), about)]


def _real(value: float | None) -> float:
    return math.nan if value is None else value
