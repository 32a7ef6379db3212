"""txjax/lab/tuning.py: the same grid for all arms, chosen on seeds of its own."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txjax.config import Config
from txjax.lab import Row, Study, Table, final
from txjax.lab.table import arm_key
from txjax.lab.tuning import choose, cross_fit, extension, refuse_coarse, sensitivity, unsettled
from txjax.schema import ConfigError

RATE = "optim.learning_rate"
VAL, TEST = final("val/loss"), final("test/loss")
GRID = (3e-4, 1e-3, 3e-3)


def tuning_row(arm: str, rate: float, seed: int, loss: float, **more) -> Row:
    return Row({"arm": arm}, 1000 + seed, {"val/loss": loss}, phase="tuning", tuned={RATE: rate}, **more)


def curve(losses: dict[float, float], arm: str = "a", seeds: int = 2) -> list[Row]:
    return [tuning_row(arm, rate, seed, loss + 0.01 * seed) for rate, loss in losses.items() for seed in range(seeds)]


def only(rows: list[Row], metric=VAL):
    (choice,) = choose(Table(tuple(rows)), metric)
    return choice


def test_the_lowest_mean_over_tuning_seeds_wins():
    rows = curve(dict(zip(GRID, (2.3, 2.1, 2.2), strict=True)))
    choice = only(rows)
    assert choice.tuned == {RATE: 1e-3} and choice.settled
    assert [point.score for point in choice.curve] == pytest.approx([2.305, 2.105, 2.205])


def test_report_rows_choose_nothing():
    lucky = Row({"arm": "a"}, 0, {"val/loss": 0.0}, tuned={RATE: 3e-3})
    assert only([*curve(dict(zip(GRID, (2.3, 2.1, 2.2), strict=True))), lucky]).tuned == {RATE: 1e-3}


def test_one_diverged_run_rules_a_value_out():
    rows = curve(dict(zip(GRID, (2.3, 2.2, 1.0), strict=True)))
    rows[-1] = tuning_row("a", 3e-3, 1, 1.0, state="diverged")
    choice = only(rows)
    assert choice.tuned == {RATE: 1e-3}
    assert choice.curve[2].score == math.inf and choice.curve[2].diverged == 1
    rows[-1] = tuning_row("a", 3e-3, 1, math.nan)  # nor may a value that is no number be the smallest
    assert only(rows).tuned == {RATE: 1e-3}


@given(st.permutations(range(6)))
def test_ties_go_to_the_smaller_value_in_any_order_of_rows(order: list[int]):
    rows = curve(dict(zip(GRID, (2.2, 2.1, 2.1), strict=True)))
    assert only([rows[i] for i in order]).tuned == {RATE: 1e-3}


def test_where_higher_is_better_the_highest_wins_and_divergence_is_lowest():
    accuracy = final("val/accuracy")
    rows = [
        Row({"arm": "a"}, 1000, {"val/accuracy": value}, phase="tuning", tuned={RATE: rate})
        for rate, value in zip(GRID, (0.2, 0.6, 0.9), strict=True)
    ]
    assert only(rows, accuracy).tuned == {RATE: 3e-3}
    rows[-1] = dataclasses.replace(rows[-1], state="diverged")
    choice = only(rows, accuracy)
    assert choice.tuned == {RATE: 1e-3} and choice.curve[2].score == -math.inf
    assert sensitivity(choice, accuracy, 0.1) == pytest.approx(((0.6 - 0.2) + 0 + (0.6 - 0.1)) / 3)
    error = final("val/accuracy", "error")
    assert accuracy.higher_is_better and not error.higher_is_better and not VAL.higher_is_better


def test_a_missing_cell_takes_its_value_out_and_leaves_the_arm_unsettled():
    rows = curve(dict(zip(GRID, (2.3, 2.2, 1.0), strict=True)))
    rows[-1] = tuning_row("a", 3e-3, 1, math.nan, state="failed")
    choice = only(rows)
    assert choice.tuned == {RATE: 1e-3} and not choice.settled
    assert math.isnan(choice.curve[2].score)
    assert unsettled([choice]) == {arm_key({"arm": "a"})}
    with pytest.raises(ValueError, match="tuning a: no value has a finished run in every tuning seed"):
        only([dataclasses.replace(r, state="failed") for r in rows])


# ---------------------------------------------------------------- the grid


@pytest.mark.parametrize("rates", [(1e-3, 3e-3, 1e-2), (3e-4, 1e-3, 3e-3), (0.1, 0.01, 0.0316), (1, 2, 5, 10), (1e-3,)])
def test_a_geometric_grid_of_rates_is_taken(rates: tuple[float, ...]):
    refuse_coarse(RATE, rates)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ((1e-3, 1e-2, 1e-1), r"factors of 10, 10,.*at most sqrt\(10\): give \(0.001, 0.0032, 0.01, 0.032, 0.1\)$"),
        ((1e-3, 2e-3, 1e-2), r"factors of 2, 5,.*give \(0.001, 0.0032, 0.01\)$"),
        ((0.0, 1e-3), "needs positive values, got 0$"),
    ],
)
def test_another_grid_is_refused_with_one_to_take(rates: tuple[float, ...], message: str):
    with pytest.raises(ConfigError, match=rf"^tuned: {RATE} .*{message}"):
        Study("?", Config(), {"model.causal": (True, False)}, [], tuned={RATE: rates})
    Study("?", Config(), {"model.causal": (True, False)}, [], tuned={"optim.weight_decay": (0.0, 0.1)})
    if "give" in message:
        given = re.search(r"give \((.*)\)", message.replace("\\", ""))
        assert given is not None
        refuse_coarse(RATE, [float(rate) for rate in given[1].split(", ")])


# ---------------------------------------------------------------- edges


def test_an_optimum_at_an_end_asks_for_one_geometric_step_for_all_arms():
    low = curve(dict(zip(GRID, (2.0, 2.1, 2.2), strict=True)), "low")
    high = curve(dict(zip(GRID, (2.2, 2.1, 2.0), strict=True)), "high")
    inside = curve(dict(zip(GRID, (2.2, 2.0, 2.1), strict=True)), "inside")
    planned = {RATE: GRID}
    choices = choose(Table((*low, *high, *inside)), VAL)
    assert [choice.edges for choice in choices] == [{RATE: -1}, {RATE: 1}, {}]
    assert extension(choices, planned, planned) == {RATE: [9e-5, 9e-3]}
    assert extension(choices[2:], planned, planned) == {}
    assert unsettled(choices) == {arm_key({"arm": "low"}), arm_key({"arm": "high"})}


@pytest.mark.parametrize(("better", "found"), [(1, [9e-3, 2.7e-2]), (-1, [9e-5, 2.7e-5])])
def test_an_end_is_extended_twice_at_most(better: int, found: list[float]):
    planned, tried, rounds = {RATE: GRID}, list(GRID), 0
    while True:
        choice = only(curve({rate: -better * rate for rate in tried}))  # further is better, for ever
        more = extension([choice], planned, {RATE: tried})
        if not more:
            break
        tried, rounds = tried + more[RATE], rounds + 1
        assert rounds <= 2
    assert tried[3:] == pytest.approx(found)
    assert not choice.settled


def test_an_arm_that_always_diverges_looks_for_smaller_values():
    rows = [dataclasses.replace(r, state="diverged") for r in curve(dict.fromkeys(GRID, 2.0))]
    choice = only(rows)
    assert choice.tuned == {RATE: 3e-4} and choice.edges == {RATE: -1}


def test_one_value_is_no_choice_and_has_no_edge():
    choice = only(curve({1e-3: 2.0}))
    assert choice.settled and extension([choice], {RATE: (1e-3,)}, {RATE: (1e-3,)}) == {}


def test_two_settings_have_edges_of_their_own_and_none_below_0():
    decay = "optim.weight_decay"
    rows = [
        Row(
            {"arm": "a"},
            1000,
            {"val/loss": abs(math.log(rate / 1e-3)) + wd},
            phase="tuning",
            tuned={RATE: rate, decay: wd},
        )
        for rate in GRID
        for wd in (0.0, 0.1)
    ]
    choice = only(rows)
    assert choice.tuned == {RATE: 1e-3, decay: 0.0} and choice.settled
    worse_without = [
        dataclasses.replace(r, values={"val/loss": r.values["val/loss"] - 2 * r.tuned[decay]}) for r in rows
    ]
    choice = only(worse_without)
    assert choice.edges == {decay: 1}
    # there is no geometric step from 0 to .1
    assert extension([choice], {RATE: GRID, decay: (0.0, 0.1)}, {RATE: GRID, decay: (0.0, 0.1)}) == {}


# ---------------------------------------------------------------- sensitivity, cross-fitting


def test_sensitivity_is_the_mean_loss_above_the_best_capped_at_the_trivial_one():
    rows = curve(dict(zip(GRID, (2.2, 2.0, 9.0), strict=True)), seeds=1)
    assert sensitivity(only(rows), VAL, trivial=3.0) == pytest.approx((0.2 + 0 + 1.0) / 3)
    rows[-1] = dataclasses.replace(rows[-1], state="diverged")
    assert sensitivity(only(rows), VAL, trivial=3.0) == pytest.approx((0.2 + 0 + 1.0) / 3)
    assert sensitivity(only(curve(dict.fromkeys(GRID, 2.0), seeds=1)), VAL, trivial=3.0) == 0


def full_grid(rng: np.random.Generator, seeds: int = 8) -> Table:
    return Table(
        tuple(
            Row({"arm": arm}, seed, {"val/loss": value, "test/loss": value}, tuned={RATE: rate})
            for arm in ("a", "b")
            for rate in GRID
            for seed in range(seeds)
            for value in [float(rng.normal())]
        )
    )


def test_cross_fitting_keeps_one_row_for_each_arm_and_seed_and_ignores_its_own_seed():
    table = full_grid(np.random.default_rng(0))
    kept = cross_fit(table, VAL)
    assert len(kept) == 16 and {(str(r.levels["arm"]), r.seed) for r in kept} == {
        (a, s) for a in "ab" for s in range(8)
    }
    moved = Table(
        tuple(
            dataclasses.replace(r, values={"val/loss": -99.0}) if r.seed == 3 and r.tuned[RATE] == 3e-3 else r
            for r in table
        )
    )
    own = [r.tuned for r in cross_fit(moved, VAL) if r.seed == 3]
    assert own == [r.tuned for r in kept if r.seed == 3]
    assert all(r.tuned == {RATE: 3e-3} for r in cross_fit(moved, VAL) if r.seed != 3)


def test_cross_fitting_has_no_winners_curse():
    """Best of 3 rates that are equal, on the reported seeds: .85 s / sqrt(n) too good. Cross-fitted: nothing."""
    chosen, fitted = [], []
    for study in range(150):
        table = full_grid(np.random.default_rng(study), seeds=6)
        values = {
            rate: [r.values["test/loss"] for r in table if r.tuned[RATE] == rate and r.levels["arm"] == "a"]
            for rate in GRID
        }
        chosen.append(min(np.mean(v) for v in values.values()))
        fitted.append(np.mean([r.values["test/loss"] for r in cross_fit(table, VAL) if r.levels["arm"] == "a"]))
    error = 1 / math.sqrt(6 * 150)
    assert np.mean(chosen) * math.sqrt(6) == pytest.approx(-0.85, abs=3 * error * math.sqrt(6))
    assert np.mean(fitted) == pytest.approx(0, abs=4 * error)


def test_cross_fitting_needs_other_seeds():
    with pytest.raises(ValueError, match=r"chooses by other seeds, and the table has only \[0\]"):
        cross_fit(full_grid(np.random.default_rng(0), seeds=1), VAL)
