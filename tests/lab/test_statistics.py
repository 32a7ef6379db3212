"""txjax/lab/statistics.py against SciPy, published figures and what must hold for any numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from txjax.lab import statistics

samples = st.lists(st.floats(-100, 100), min_size=3, max_size=12)
ps = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(samples, st.floats(0.001, 0.2))
def test_interval_and_p_are_students(numbers: list[float], alpha: float):
    if np.std(numbers) < 1e-6:
        return
    theirs = stats.ttest_1samp(numbers, 0.5)
    ours = statistics.t_interval(numbers, alpha)
    assert ours == pytest.approx(tuple(theirs.confidence_interval(1 - alpha)), rel=1e-9, abs=1e-9)
    assert statistics.t_p(numbers, 0.5) == pytest.approx(theirs.pvalue, rel=1e-9)


@settings(max_examples=30)
@given(st.lists(st.integers(-20, 20), min_size=2, max_size=9), st.integers(-3, 3))
def test_sign_flips_are_scipys_permutations(numbers: list[int], at: int):
    distances = np.array(numbers, float) - at
    theirs = stats.permutation_test((distances,), np.sum, permutation_type="samples", alternative="two-sided")
    # theirs doubles the smaller tail, which differs where the distribution has ties with 0
    count = np.abs(theirs.null_distribution) >= abs(distances.sum()) - 1e-9
    assert statistics.sign_flip_p(numbers, at) == pytest.approx(float(np.mean(count)))


def test_sign_flips_do_not_depend_on_rounding():
    numbers = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.6]  # .1 + .2 is not .3: sums of equal size must count as equal
    assert statistics.sign_flip_p(numbers) == statistics.sign_flip_p([round(10 * x) for x in numbers])


def test_drawn_sign_flips_come_near_the_exact_ones(monkeypatch: pytest.MonkeyPatch):
    numbers = list(np.random.default_rng(3).normal(0.4, 1, 16))
    exact = statistics.sign_flip_p(numbers)
    monkeypatch.setattr(statistics, "EXACT", 15)
    drawn = statistics.sign_flip_p(numbers)
    assert drawn == statistics.sign_flip_p(numbers)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / statistics.DRAWS))
    assert statistics.sign_flip_p([1.0] * 40) == 1 / (1 + statistics.DRAWS)  # never 0


@pytest.mark.parametrize(("n", "comparisons"), [(6, 1), (7, 3), (8, 6), (10, 25)])
def test_the_exact_test_survives_holm_over_so_many(n: int, comparisons: int):
    least = statistics.sign_flip_p([1.0] * n)
    assert least == 2 / 2**n
    assert least <= 0.05 / comparisons
    assert least > 0.05 / (comparisons + 1)
    assert statistics.fewest(0.05 / comparisons) == n


def test_a_spread_is_bounded_by_the_grain_of_what_was_read():
    numbers = [100.0] * 8  # steps on a grid of evaluations: the same hundred steps in every seed
    assert statistics.t_interval(numbers) == (100.0, 100.0)
    low, high = statistics.t_interval(numbers, floor=100 / math.sqrt(12))
    half = stats.t.ppf(0.975, 7) * 100 / math.sqrt(12) / math.sqrt(8)
    assert (low, high) == pytest.approx((100 - half, 100 + half))
    assert statistics.spread([1.0, 2.0], floor=0.1) == pytest.approx(math.sqrt(0.5))


@given(samples, st.floats(0.01, 50), st.floats(0.005, 0.1))
def test_equivalence_is_the_interval_inside_the_margin(numbers: list[float], margin: float, alpha: float):
    if np.std(numbers) < 1e-6:
        return
    low, high = statistics.t_interval(numbers, 2 * alpha)
    room = min(low + margin, margin - high)
    if abs(room) > 1e-9:
        assert (statistics.equivalence_p(numbers, margin) <= alpha) == (room > 0)
    above = stats.ttest_1samp(numbers, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(numbers, margin, alternative="less").pvalue
    assert statistics.equivalence_p(numbers, margin) == pytest.approx(max(above, below), abs=1e-9)


def test_holm_steps_down():
    # Wikipedia, Holm-Bonferroni method, example: p = .01, .04, .03, .005 at .05; the two smallest are rejected
    levels = statistics.holm([0.01, 0.04, 0.03, 0.005])
    assert levels == pytest.approx([0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])
    assert [p <= level for p, level in zip([0.01, 0.04, 0.03, 0.005], levels, strict=True)] == [
        True,
        False,
        False,
        True,
    ]


@given(ps)
def test_holm_rejects_more_than_bonferroni_and_less_than_none(p: list[float]):
    levels = statistics.holm(p)
    assert all(0.05 / len(p) <= level <= 0.05 for level in levels)
    if len(p) == 1:
        assert levels == [0.05]
    rejected = [p[i] for i in range(len(p)) if p[i] <= levels[i]]
    kept = [p[i] for i in range(len(p)) if p[i] > levels[i]]
    assert not rejected or not kept or max(rejected) <= min(kept)


def test_benjamini_hochbergs_own_example():
    # Benjamini & Hochberg 1995, section 3.2: 15 p-values of Neuhaus et al.; at q = .05 the first four are found
    p = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.324,
        0.4262,
        0.5719,
        0.6528,
        0.759,
        1.0,
    ]
    q = statistics.benjamini_hochberg(p)
    assert [value <= 0.05 for value in q] == [True] * 4 + [False] * 11
    assert statistics.benjamini_hochberg([]) == []
    assert sum(p <= level for p, level in zip(p, statistics.holm(p), strict=True)) == 3  # Holm, there too


@given(st.integers(0, 12), st.integers(0, 12))
def test_mcnemar_is_a_binomial_test(first: int, second: int):
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert statistics.mcnemar_p(first, second) == pytest.approx(expected)


def test_correlation_needs_arms_that_vary():
    assert statistics.correlation([1, 2, 4], [2, 4, 8]) == pytest.approx(1)
    assert statistics.correlation([1, 2, 4], [3, 3, 3]) is None
    assert statistics.correlation([1, 2], [1, 2]) is None


# ---------------------------------------------------------------- power


@pytest.mark.parametrize(("n", "effect"), [(8, 1.16), (10, 1.0), (20, 0.66)])
def test_detectable_effects_are_the_published_ones(n: int, effect: float):
    """Cohen's d of a paired t test at 80 % power, two-sided .05, as G*Power tabulates them."""
    assert statistics.detectable(n, 1.0) == pytest.approx(effect, abs=0.005)
    assert statistics.detectable(n, 2.5) == pytest.approx(2.5 * effect, abs=0.02)


def test_five_seeds_detect_nothing_by_the_exact_test():
    assert statistics.power(1.68, 1.0, 5) == pytest.approx(0.8, abs=0.005)  # Student alone would
    assert statistics.detectable(5, 1.0) == math.inf


@given(st.floats(0, 2.5), st.integers(3, 25), st.sampled_from([0.05, 0.025, 0.01]))
def test_power_is_the_noncentral_ts(effect: float, n: int, alpha: float):
    critical, shift = stats.t.ppf(1 - alpha / 2, n - 1), effect * math.sqrt(n)
    expected = stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)
    if math.isfinite(expected):
        assert statistics.power(effect, 1.0, n, alpha) == pytest.approx(expected, abs=1e-4)


def test_equivalence_at_five_seeds_needs_a_margin_of_1_6_spreads():
    assert statistics.equivalence_power(1.6, 1.0, 5) == pytest.approx(0.8, abs=0.005)
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4000, 8))
    half = stats.t.ppf(0.95, 7) * draws.std(axis=1, ddof=1) / math.sqrt(8)
    simulated = np.mean(np.abs(draws.mean(axis=1)) + half < 1.1)
    assert statistics.equivalence_power(1.1, 1.0, 8) == pytest.approx(simulated, abs=0.025)


@given(st.floats(0.1, 3), st.sampled_from([0.05, 0.0125]))
def test_needed_is_the_smallest_n_with_the_power(effect: float, alpha: float):
    n = statistics.needed(effect, 1.0, alpha)
    assert n is not None
    assert statistics.power(effect, 1.0, n, alpha) >= 0.8
    assert n == statistics.fewest(alpha) or statistics.power(effect, 1.0, n - 1, alpha) < 0.8
    assert statistics.detectable(n, 1.0, alpha) <= effect * (1 + 1e-6)


def test_needed_says_nothing_of_effects_beyond_reach():
    assert statistics.needed(0.0, 1.0) is None
    assert statistics.needed(1e-4, 1.0) is None
    assert statistics.needed(1.0, 0.0) == statistics.fewest()
    assert statistics.needed_for_equivalence(1e-4, 1.0) is None
    n = statistics.needed_for_equivalence(0.5, 1.0)
    assert n is not None
    assert statistics.equivalence_power(0.5, 1.0, n) >= 0.8 > statistics.equivalence_power(0.5, 1.0, n - 1)
