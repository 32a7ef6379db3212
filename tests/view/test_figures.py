"""Figures: what they show of their numbers, and of names that are no mathematics and no markup."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from txjax.view.arms import LevelCurve, RateCurve, compact, costs_plot, levels_plot, rates_plot
from txjax.view.effects import difference_plot, forest_plot, seeds_plot
from txjax.view.style import shortened, standalone

ODD = "<b> & $\\alpha_1$"
NAN = math.nan


def texts(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def interval(name: str, unit: str = "nats", mean: float = 0.5, half: float = 0.1, margin: float | None = 0.02):
    return SimpleNamespace(
        prediction=name, label="estimate", unit=unit, mean=mean, low=mean - half, high=mean + half, margin=margin
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda name: forest_plot([interval(name), interval("other", name)]),
        lambda name: seeds_plot({name: {0: 1.0, 1: 1.2}, "b": {0: 1.1, 1: NAN}}, "nats"),
        lambda name: rates_plot([RateCurve(name, [(0.1, 1.0), (0.2, 2.0)], 0.1)], "rate", "loss"),
        lambda name: costs_plot({"tokens": {name: 1e4, "b": 2e4}}),
        lambda name: levels_plot([LevelCurve(name, {2: [1.0], 4: [0.5]})], "depth", "gradient"),
        lambda name: difference_plot([1, 2], [0.1, 0.2], [0.0, 0.1], [0.2, 0.3], name, 0.05),
    ],
    ids=["forest", "seeds", "rates", "costs", "levels", "difference"],
)
def test_a_name_is_shown_as_it_is(draw: Callable[[str], str]):
    assert any(ODD in text for text in texts(draw(ODD)))


@pytest.mark.parametrize(
    "svg",
    [
        lambda: forest_plot([interval("a", mean=NAN, half=NAN), interval("b", half=NAN, margin=None)]),
        lambda: seeds_plot({"a": {0: NAN}, "b": {}}, "nats"),
        lambda: rates_plot([RateCurve("a", [(0.0, 1.0), (0.1, math.inf)], 0.0)], "dropout", "loss"),
        lambda: costs_plot({"seconds": {"a": NAN, "b": 2.0}}),
        lambda: levels_plot([LevelCurve("a", {2: [NAN], 4: [-1.0]})], "depth", "score"),
        lambda: difference_plot([1], [0.0], [0.0], [0.0], ""),
    ],
    ids=["forest", "seeds", "rates", "costs", "levels", "difference"],
)
def test_what_is_missing_leaves_a_figure(svg: Callable[[], str]):
    assert ElementTree.fromstring(standalone(svg())).tag.endswith("svg")


def test_each_unit_has_an_axis_of_its_own():
    shown = texts(forest_plot([interval("a"), interval("b", "accuracy", 0.001, 0.001), interval("c")]))
    assert shown.count("nats") == shown.count("accuracy") == 1


def test_costs_are_shares_of_the_first_arm():
    shown = texts(costs_plot({"tokens": {"a": 1000.0, "b": 1500.0, "c": NAN}}))
    assert {"a  1,000", "b  1,500  (150.0%)", "c  not known"} <= set(shown)


@pytest.mark.parametrize(("low", "high"), [(0.001, 1000.0), (0.2, 5.0), (0.7, 3.0), (0.52, 0.56)])
def test_logarithmic_ticks_are_plain_figures(low: float, high: float):
    shown = texts(levels_plot([LevelCurve("a", {16: [low], 32: [high]})], "depth", "gradient"))
    assert {"16", "32"} <= set(shown)
    figures = [text for text in shown if text not in ("16", "32", "a", "depth", "gradient")]
    assert len(figures) >= 2 and all(low / 2 < float(figure) < high * 2 for figure in figures)


def test_theory_is_drawn_beside_what_was_measured():
    curve = LevelCurve("a", {2: [1.1], 4: [0.6]}, theory=[(2, 1.0), (4, 0.5)])
    assert {"a", "a, theory"} <= set(texts(levels_plot([curve], "depth", "gradient")))


@pytest.mark.parametrize(("amount", "said"), [(80416, "80,416"), (1.85e10, "1.85e+10"), (4.512, "4.51"), (2, "2")])
def test_compact(amount: float, said: str):
    assert compact(amount) == said


def test_shortened_keeps_both_ends():
    assert shortened("a b\nc", 9) == "a b c"
    assert shortened("abcdefghij", 7) == "abcd…ij"
