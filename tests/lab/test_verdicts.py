"""txjax/lab/verdicts.py and rules.py: every rule, in its order, and what must hold for all of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_table import replaced, row, two_arms

from txjax.lab import Prediction, Table, Terms, Verdict, difference, final, steps_to, verdict
from txjax.lab.contrasts import log_ratio, slope
from txjax.lab.statistics import needed, sign_flip_p
from txjax.lab.table import Row, arm_key
from txjax.lab.verdicts import verdicts

WORSE = difference("post", "pre")
CLEAR = [0.50, 0.58, 0.55, 0.49, 0.61, 0.52, 0.54, 0.57]
NOISE = [0.3, -0.2, 0.1, -0.4, 0.2, 0.05, -0.1, 0.15]
TINY = [0.004, 0.005, 0.003, 0.006, 0.004, 0.005, 0.004, 0.003]


def judge(differences: list[float], terms: Terms | None = None, **prediction: Any) -> Verdict:
    return verdict(two_arms(differences), Prediction("post above pre", WORSE, **prediction), terms=terms)


def mirrored(differences: list[float]) -> list[float]:
    return [-d for d in differences]


# ---------------------------------------------------------------- direction


def test_a_clear_effect_is_reproduced():
    found = judge(CLEAR, claim="C47")
    assert (found.label, found.n, found.p) == ("reproduced (material)", 8, 2 / 2**8)
    assert found.mean == pytest.approx(0.545)
    assert found.margin == 0.02  # of losses, at the cpu tier
    assert found.line("12 layers, d 32").startswith(
        "verdict: reproduced (material) C47 · post above pre +0.545 nats [+0.5"
    )
    assert found.line("12 layers, d 32").endswith("] · n 8 · 12 layers, d 32")


def test_an_effect_within_the_margin_is_negligible():
    assert judge(TINY).label == "reproduced (negligible)"
    assert judge(TINY, margin=0.0042).label == "reproduced"  # the interval is on both sides of the margin
    assert judge(TINY, margin=0.001).label == "reproduced (material)"


def test_the_other_direction_is_reversed():
    assert judge(mirrored(CLEAR)).label == "reversed"


def test_no_effect_is_equivalent_where_the_margin_is_wide_and_open_where_it_is_not():
    assert judge(NOISE, margin=0.5).label == "equivalent"
    found = judge(NOISE, margin=0.1)
    assert found.label == "inconclusive"
    assert found.needed is not None and found.needed > 8
    assert f"{found.needed} seeds" in found.reason and found.reason in found.line("")
    assert found.needed == needed(0.1, found.s_d)  # the mean is smaller, and smaller ones do not matter
    assert judge(NOISE, margin=0.0).needed == needed(found.mean, found.s_d)


def test_the_exact_test_must_agree_with_the_interval():
    outlier = [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, -0.02]
    assert judge(outlier).word == "reproduced"
    six = [0.5, 0.51, 0.52, 0.5, 0.51, -0.001]  # the interval excludes 0, but 4 of 64 signings are as far out
    found = judge(six)
    assert found.low > 0 and found.p == 4 / 64 and found.word == "inconclusive"
    heavy = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 3.0]  # all above 0, and an interval that is wide
    found = judge(heavy)
    assert found.low < 0 and found.p > 2 / 256 and found.word == "inconclusive"


@settings(max_examples=60)
@given(st.lists(st.floats(-1, 1).map(lambda x: round(x, 3)), min_size=6, max_size=10), st.floats(0.001, 0.5))
def test_turning_all_signs_turns_the_verdict(differences: list[float], margin: float):
    there, back = judge(differences, margin=margin), judge(mirrored(differences), margin=margin)
    turned = {"reproduced": "reversed", "reversed": "reproduced"}
    assert back.word == turned.get(there.word, there.word)
    assert (back.low, back.high, back.p) == pytest.approx((-there.high, -there.low, there.p), abs=1e-9)


@settings(max_examples=30)
@given(st.permutations(range(16)), st.sampled_from([CLEAR, NOISE, TINY]))
def test_the_order_of_rows_does_not_matter(order: list[int], differences: list[float]):
    table = two_arms(differences)
    shuffled = Table(tuple(table.rows[i] for i in order))
    prediction = Prediction("post above pre", WORSE)
    assert verdict(shuffled, prediction) == verdict(table, prediction)


# ---------------------------------------------------------------- same and at_least


def test_same_is_reproduced_inside_the_margin_and_reversed_beyond_it():
    assert judge(NOISE, kind="same", margin=0.5).label == "reproduced"
    beyond = judge(CLEAR, kind="same", margin=0.1)
    assert (beyond.label, beyond.p) == ("reversed", 2 / 2**8)
    assert judge(mirrored(CLEAR), kind="same", margin=0.1).label == "reversed"
    found = judge(NOISE, kind="same", margin=0.05)
    assert found.label == "inconclusive" and found.needed is not None and found.needed > 8
    assert judge(TINY, kind="same").label == "reproduced"  # a difference, but none that matters


def test_same_uses_the_interval_at_90_percent():
    """Between the ends of the 90 % and the 95 % interval lies a margin that only the first passes."""
    found = judge(NOISE, kind="same", margin=0.5)
    narrow = found.mean + (found.high - found.mean) * 1.8946 / 2.3646  # t(.95, 7) / t(.975, 7)
    assert found.high > narrow * 1.05
    assert judge(NOISE, kind="same", margin=narrow * 1.05).word == "reproduced"
    assert judge(NOISE, kind="same", margin=narrow * 0.95).word == "inconclusive"


def test_at_least_is_a_bound_with_the_sign_told_apart():
    assert judge(CLEAR, kind="at_least", least=0.4).label == "reproduced"
    short = judge(CLEAR, kind="at_least", least=1.0)
    assert short.label == "reversed" and "above 0" in short.reason
    near = judge(CLEAR, kind="at_least", least=0.55)
    assert near.label == "inconclusive" and near.p >= sign_flip_p(CLEAR, 0.55) > 0.5
    assert "below 0" in judge(mirrored(CLEAR), kind="at_least", least=0.4).reason


# ---------------------------------------------------------------- before all


def test_what_cannot_be_tested_here_is_not():
    found = judge(CLEAR, Terms(untestable={"post above pre": "needs the device tier"}))
    assert found.label == "not testable" and "needs the device tier" in found.line("cpu")


def test_fewer_than_six_seeds_give_an_estimate():
    found = judge(CLEAR[:5])
    assert (found.word, found.n) == ("estimate", 5) and "needs 6" in found.reason
    assert found.low < found.mean < found.high
    lone = judge(CLEAR[:1])
    assert lone.word == "estimate" and math.isnan(lone.low) and "[" not in lone.line("")


def test_identical_arms_are_identical_at_any_number_of_seeds():
    assert judge([0.0] * 8).word == "identical"
    assert judge([0.0] * 2).word == "identical"
    assert judge([0.0] * 7 + [1e-9]).word != "identical"


def test_secondary_and_exploratory_predictions_get_intervals_and_no_verdict():
    secondary = judge(CLEAR, primary=False)
    exploratory = judge(CLEAR, Terms(exploratory="the predictions were edited after the first run"))
    assert secondary.word == exploratory.word == "estimate"
    assert (secondary.low, secondary.high) == (exploratory.low, exploratory.high)
    assert "edited" in exploratory.line("")


def test_tuning_that_found_no_optimum_bars_the_arms_that_it_concerns():
    at_edge = frozenset({arm_key({"model.norm_placement": "post"})})
    assert judge(CLEAR, Terms(unsettled=at_edge)).label == "inconclusive (tuning)"
    other = frozenset({arm_key({"model.norm_placement": "sandwich"})})
    assert judge(CLEAR, Terms(unsettled=other)).word == "reproduced"


def test_a_failed_cell_takes_its_seed_and_the_verdict():
    table = replaced(two_arms(CLEAR), row("post", 3, math.nan, state="failed"))
    found = verdict(table, Prediction("p", WORSE), final())
    assert (found.label, found.n, found.missing) == ("inconclusive (missing cells)", 7, (3,))
    assert 3 not in found.seeds and "seeds 3 cannot" in found.reason


def test_a_seed_that_never_ran_is_missing_too():
    found = judge(CLEAR, Terms(seeds=range(10)))
    assert (found.label, found.missing) == ("inconclusive (missing cells)", (8, 9))


def test_runs_that_all_failed_are_no_identity():
    table = Table(tuple(dataclasses.replace(r, state="diverged") for r in two_arms(CLEAR)))
    found = verdict(table, Prediction("p", WORSE), final(), terms=Terms(trivial=3.3))
    assert found.label == "inconclusive (failures)"


# ---------------------------------------------------------------- families


def arms_table(effects: dict[str, list[float]]) -> Table:
    rows = [Row({"arm": "base"}, seed, {"test/loss": 2.0}) for seed in range(8)]
    for arm, values in effects.items():
        rows += [Row({"arm": arm}, seed, {"test/loss": 2.0 + values[seed]}) for seed in range(8)]
    return Table(tuple(rows))


def test_levels_step_down_over_the_primary_predictions():
    table = arms_table({"a": CLEAR, "b": NOISE, "c": [0.1, 0.2, 0.15, 0.1, -0.02, 0.2, 0.1, 0.12]})
    predictions = [Prediction(arm, difference(arm, "base")) for arm in "abc"]
    a, b, c = verdicts(table, predictions, final())
    assert [v.alpha for v in (a, b, c)] == pytest.approx([0.05 / 3, 0.05, 0.05 / 2])
    assert [v.word for v in (a, b, c)] == ["reproduced", "inconclusive", "reproduced"]
    assert "Holm over 3" in a.line("")
    alone = verdict(table, predictions[2], final())
    assert alone.alpha == 0.05 and alone.low > c.low


def test_more_secondary_predictions_cost_nothing_and_one_that_is_barred_still_counts():
    table = arms_table({"a": CLEAR, "b": NOISE})
    a = Prediction("a", difference("a", "base"))
    b = Prediction("b", difference("b", "base"))
    assert verdicts(table, [a, dataclasses.replace(b, primary=False)], final())[0].alpha == 0.05
    for name, other in (("a", 1), ("b", 0)):  # nor does one that is barred make room, however small its p
        barred = Terms(untestable={name: "needs a device"})
        assert verdicts(table, [a, b], final(), terms=barred)[other].alpha == 0.025


def test_a_planned_second_look_halves_alpha():
    found = judge(CLEAR, Terms(looks=2))
    assert found.alpha == 0.025 and found.low < judge(CLEAR).low
    three = arms_table({arm: CLEAR for arm in "abc"})
    predictions = [Prediction(arm, difference(arm, "base")) for arm in "abc"]
    assert {v.word for v in verdicts(three, predictions, final(), terms=Terms(looks=2))} == {"reproduced"}
    four = arms_table({arm: CLEAR for arm in "abcd"})  # 8 seeds carry three predictions in the first of two looks
    predictions.append(Prediction("d", difference("d", "base")))
    assert {v.word for v in verdicts(four, predictions, final(), terms=Terms(looks=2))} == {"inconclusive"}
    with pytest.raises(ValueError, match="looks must be 1 or 2, got 3"):
        judge(CLEAR, Terms(looks=3))


# ---------------------------------------------------------------- margins, words and files


def test_a_margin_has_the_unit_of_its_contrast():
    assert judge(CLEAR).unit == "nats"
    ratio = verdict(two_arms(CLEAR), Prediction("p", log_ratio("post", "pre")))
    assert (ratio.unit, ratio.margin) == ("log ratio", pytest.approx(math.log(1.05)))
    own = verdict(two_arms(CLEAR), Prediction("p", lambda seed: seed.mean()))
    assert own.margin is None and own.size == ""
    assert verdict(two_arms(CLEAR), Prediction("p", WORSE), tier="device").margin == 0.01
    with pytest.raises(ValueError, match=r"'p': kind same needs a margin"):
        verdict(two_arms(CLEAR), Prediction("p", lambda seed: seed.mean(), kind="same"))
    cells = itertools.product((1, 2), "ab", range(8))
    depths = [Row({"depth": d, "arm": a}, s, {"test/loss": 0.01 * s + d * (a == "b")}) for d, a, s in cells]
    grows = verdict(Table(tuple(depths)), Prediction("p", slope(difference("b", "a"), over="depth")))
    assert (grows.unit, grows.margin) == ("nats a factor e", None)
    assert grows.mean == pytest.approx(1 / math.log(2))


@pytest.mark.parametrize("differences", [CLEAR, NOISE, CLEAR[:2]])
def test_a_verdict_survives_its_file(differences: list[float]):
    found = judge(differences, claim="C47")
    assert Verdict.from_json(found.to_json()) == found
    lone = Verdict.from_json(judge(CLEAR[:1]).to_json())
    assert math.isnan(lone.low) and lone.numbers == (pytest.approx(0.5),)


def test_a_table_of_several_metrics_asks_which():
    table = Table(tuple(dataclasses.replace(r, values={**r.values, "val/loss": 1.0}) for r in two_arms(CLEAR)))
    with pytest.raises(ValueError, match=r"say which metric .* test/loss, val/loss"):
        verdict(table, Prediction("p", WORSE))
    assert verdict(table, Prediction("p", WORSE, metric=final("val/loss"))).word == "identical"
    with pytest.raises(ValueError, match=r"no 'log steps to val/accuracy 0\.9'"):
        verdict(table, Prediction("p", WORSE), steps_to("val/accuracy", 0.9))


def test_a_misspelt_level_is_named():
    with pytest.raises(ValueError, match="did you mean 'post'"):
        verdict(two_arms(CLEAR), Prediction("p", difference("posst", "pre")))


def test_noise_alone_is_rarely_a_finding():
    rng = random.Random(0)
    words = [judge([rng.gauss(0, 1) for _ in range(8)], margin=0.0).word for _ in range(400)]
    assert sum(word != "inconclusive" for word in words) <= 0.05 * 400 + 2 * math.sqrt(0.05 * 0.95 * 400)
