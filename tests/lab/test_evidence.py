"""txjax/lab/evidence.py: how failures, cut-off runs and the grain of a read-out enter the numbers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from small_table import replaced, row, two_arms

from txjax.lab import Prediction, Row, Table, Terms, difference, final, interaction, log_ratio, steps_to, verdict
from txjax.lab.evidence import gather, value_of
from txjax.lab.readouts import Metric, area_under
from txjax.lab.table import arm_key

WORSE = difference("post", "pre")
SMALL = [0.1, 0.2, 0.15, 0.05, 0.12, 0.18, 0.11, 0.09]
BUDGET = math.log(1000)
STEPS = steps_to("val/accuracy", 0.99)
AREA = Metric("val/accuracy", "area", transform="error")


# ---------------------------------------------------------------- failures


def test_a_diverged_run_counts_as_the_trivial_predictor():
    table = replaced(two_arms(SMALL), row("post", 2, math.nan, state="diverged"))
    found = gather(table, WORSE, final(), trivial=3.3)
    pre = 2 + 0.1 * math.sin(10)
    assert found.numbers[2] == pytest.approx(3.3 - pre)
    assert found.numbers[:2] == pytest.approx(SMALL[:2])
    assert found.divergences == {"pre": 0, "post": 1}
    logs = replaced(two_arms(SMALL, "log test/loss"), row("post", 2, math.nan, "log test/loss", state="diverged"))
    assert gather(logs, WORSE, final(transform="log"), 3.3).numbers[2] == pytest.approx(math.log(3.3) - pre)


def test_a_diverged_run_that_logged_a_low_loss_before_still_counts_as_trivial():
    table = replaced(two_arms(SMALL), row("post", 2, 0.5, state="diverged"), row("post", 3, math.inf))
    found = gather(table, WORSE, final(), trivial=3.3)
    assert found.numbers[2] > 1 and found.numbers[3] > 1  # so does a loss that is not finite


def test_divergence_never_favours_the_arm_that_diverges():
    """Survivorship: what remains of the unstable arm is better, and must not decide."""
    better = two_arms([-0.3] * 8)
    some = [row("post", seed, math.nan, state="diverged") for seed in range(5)]
    assert verdict(better, Prediction("p", WORSE), final()).word == "reversed"
    found = verdict(replaced(better, *some), Prediction("p", WORSE), final(), terms=Terms(trivial=3.3))
    assert found.word == "inconclusive" and found.mean > 0
    assert found.divergences == {"pre": 0, "post": 5} and found.mcnemar == pytest.approx(2 / 2**5)


def test_seeds_in_which_both_sides_diverged_tell_nothing_of_either():
    gone = [
        row(arm, seed, math.nan, state="diverged")
        for arm, seeds in (("post", range(5)), ("pre", (0, 7)))
        for seed in seeds
    ]
    found = gather(replaced(two_arms(SMALL), *gone), WORSE, final(), trivial=3.3)
    assert found.divergences == {"pre": 2, "post": 5}
    assert found.mcnemar == pytest.approx(2 * (1 + 5) / 2**5)  # 4 seeds against 1


def test_the_trivial_loss_may_stand_in_the_row_and_is_asked_for_where_it_does_not():
    table = replaced(two_arms(SMALL), row("post", 2, math.nan, state="diverged", facts={"trivial": 3.3}))
    assert gather(table, WORSE, final()).numbers[2] > 1
    with pytest.raises(ValueError, match="post, seed 2 diverged: give `trivial`"):
        gather(replaced(table, row("post", 2, math.nan, state="diverged")), WORSE, final())


def test_a_diverged_accuracy_is_0_and_any_other_figure_is_missing():
    accuracy = Row({"arm": "a"}, 0, {"val/accuracy": 0.9}, state="diverged")
    assert value_of(accuracy, final("val/accuracy")) == 0
    assert value_of(accuracy, final("val/accuracy", "error")) == 1
    assert math.isnan(value_of(Row({"arm": "a"}, 0, {}, state="diverged"), final("grad/norm")))


def test_a_missing_cell_matters_only_to_contrasts_that_read_it():
    rows = [Row({"norm": n, "warmup": w}, s, {"test/loss": s + w}) for n in "abc" for w in (0, 1) for s in range(6)]
    table = Table(tuple(rows[:-1]))  # c, 1, seed 5 never ran
    both = gather(table, difference("b", "a"), final())
    assert both.missing == () and len(both.arms) == 4
    assert gather(table, difference("c", "a"), final()).missing == (5,)
    assert gather(table, interaction(difference("b", "a"), 1, 0), final()).missing == ()


def test_a_figure_that_no_run_logged_is_refused():
    table = two_arms([math.nan] * 8, base=math.nan)
    with pytest.raises(ValueError, match="no run that finished has logged 'test/loss'"):
        gather(table, WORSE, final(), trivial=3.3)
    with pytest.raises(ValueError, match="did you mean 'test/loss'"):
        gather(two_arms(SMALL), WORSE, final("test/los"))


def test_two_rows_of_one_cell_are_refused():
    table = two_arms(SMALL)
    with pytest.raises(ValueError, match="pre has several rows at seed 0: cross_fit"):
        gather(Table((*table, table.rows[0])), WORSE, final())


# ---------------------------------------------------------------- steps to a threshold


def steps_table(cut: int, arms: int = 1) -> Table:
    """Of 8 runs of post (and of pre, with 2 arms), `cut` end before they cross the threshold."""
    rows = []
    for arm, slower in (("pre", 0.0), ("post", 0.7)):
        for seed in range(8):
            censored = seed < cut and (arm == "post" or arms == 2)
            value = BUDGET if censored else 5 + 0.1 * seed + slower
            values = {STEPS.name: value, AREA.name: 0.2 + slower / 10 + 0.01 * math.sin(seed)}
            rows.append(Row({"norm": arm}, seed, values, censored=(STEPS.name,) * censored))
    return Table(tuple(rows))


def test_a_quarter_of_cut_off_runs_count_as_the_budget():
    found = gather(steps_table(2), WORSE, STEPS)
    assert not found.fell_back and found.metric == STEPS
    assert found.numbers[0] == pytest.approx(BUDGET - 5) and found.numbers[7] == pytest.approx(0.7)


def test_more_of_them_turn_to_the_area_by_rule():
    found = verdict(steps_table(3), Prediction("slower", WORSE, margin=0.5), STEPS)
    assert found.fell_back and found.metric == "error of area under val/accuracy"
    assert found.word == "reproduced" and found.unit == "accuracy"
    assert found.mean == pytest.approx(0.07)
    assert found.margin == 0.01  # the study's was in log steps


def test_a_bound_in_log_steps_says_nothing_of_an_area():
    found = verdict(steps_table(3), Prediction("slower", WORSE, "at_least", least=0.5), STEPS)
    assert found.label == "inconclusive (censored)"


def test_a_diverged_run_never_gets_there():
    table = steps_table(1)
    gone = Row({"norm": "post"}, 5, {STEPS.name: math.nan, AREA.name: math.nan}, state="diverged")
    table = Table((*table.where(lambda r: (r.levels["norm"], r.seed) != ("post", 5)), gone))
    assert gather(table, WORSE, STEPS).numbers[5] == pytest.approx(BUDGET - 5.5)


# ---------------------------------------------------------------- grain, sides


@pytest.mark.parametrize(("contrast", "factor"), [(WORSE, math.sqrt(2)), (log_ratio("post", "pre"), math.sqrt(0.5))])
def test_the_grain_of_both_arms_bounds_the_spread(contrast: object, factor: float):
    """Same difference in every seed, because steps are counted on a grid of evaluations: no infinite t."""
    grain = 100 / math.sqrt(12)
    metric = Metric("val/accuracy", "steps_to", 0.9)
    table = two_arms([0.0] * 8, metric.name, base=2.0, resolution={metric.name: grain})
    flat = Table(
        tuple(dataclasses.replace(r, values={metric.name: 2.0 + (i % 2) * 1e-12}) for i, r in enumerate(table))
    )
    found = gather(flat, contrast, metric)
    assert found.floor == pytest.approx(factor * grain, rel=1e-3)
    assert verdict(flat, Prediction("p", contrast), metric).s_d == pytest.approx(found.floor)


def test_rounding_to_a_grid_is_what_the_floor_foresees():
    rng = np.random.default_rng(0)
    steps = rng.uniform(1000, 9000, (2, 4000))
    rounded = np.ceil(steps / 100) * 100
    noise = np.std((rounded - steps)[0] - (rounded - steps)[1])
    table = two_arms(SMALL, resolution={"test/loss": 100 / math.sqrt(12)})
    assert gather(table, WORSE, final()).floor == pytest.approx(noise, rel=0.03)


def test_arms_correlate_over_seeds():
    assert gather(two_arms([0.5] * 8), WORSE, final()).correlation == pytest.approx(1)
    table = two_arms([-0.2 * math.sin(5 * s) for s in range(8)])
    assert gather(table, WORSE, final()).correlation == pytest.approx(-1)


def test_the_arms_that_a_function_of_ones_own_reads_are_found():
    table = Table(tuple(Row({"arm": a}, s, {"x": s + 1.0}) for a in "abc" for s in range(6)))
    own = lambda seed: 2 * seed.at("arm", "a").mean() ** 2 - seed.at("arm", "c").mean()  # noqa: E731
    assert gather(table, own, final("x")).arms == {arm_key({"arm": "a"}), arm_key({"arm": "c"})}


def test_tuning_rows_are_not_evidence():
    tuned = [dataclasses.replace(r, phase="tuning", seed=1000 + r.seed) for r in two_arms([9.0] * 4)]
    assert gather(Table((*two_arms(SMALL), *tuned)), WORSE, final()).numbers == pytest.approx(SMALL)


def test_area_under_a_loss_is_a_loss():
    metric = area_under("train/loss")
    table = replaced(two_arms(SMALL, metric.name), row("post", 0, math.nan, metric.name, state="diverged"))
    assert gather(table, WORSE, metric, trivial=3.3).numbers[0] == pytest.approx(3.3 - 2)
