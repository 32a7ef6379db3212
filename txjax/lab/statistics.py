"""What n numbers say about their mean: intervals, exact tests, levels of a family, power. NumPy and SciPy only.

Throughout, `floor` bounds the standard deviation from below: the grain of what was read (docs/statistics.md).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

ALPHA = 0.05
POWER = 0.8
EXACT = 16  # numbers whose signs are flipped in all ways; more of them are drawn
DRAWS = 20_000
MOST_SEEDS = 10_000  # beyond which the seeds that a finding would need are not worth a number


def spread(numbers: Sequence[float], floor: float = 0.0) -> float:
    """The standard deviation with n - 1 in the denominator, or `floor` where that is larger; NaN for one number."""
    return max(floor, float(np.std(numbers, ddof=1))) if len(numbers) > 1 else math.nan


def t_interval(numbers: Sequence[float], alpha: float = ALPHA, floor: float = 0.0) -> tuple[float, float]:
    """mean -+ t(1 - alpha/2, n - 1) s / sqrt(n), which covers the true mean with probability 1 - alpha where the
    numbers are normal. NaN for fewer than two.
    """
    n = len(numbers)
    if n < 2:
        return math.nan, math.nan
    half = float(special.stdtrit(n - 1, 1 - alpha / 2)) * spread(numbers, floor) / math.sqrt(n)
    mean = math.fsum(numbers) / n
    return mean - half, mean + half


def t_p(numbers: Sequence[float], at: float = 0.0, floor: float = 0.0) -> float:
    """Two-sided p of Student's test that the mean is `at`: the alpha at which the interval ends there."""
    n = len(numbers)
    if n < 2:
        return math.nan
    distance, error = abs(math.fsum(numbers) / n - at), spread(numbers, floor) / math.sqrt(n)
    if error == 0:
        return float(distance == 0)
    return 2 * float(special.stdtr(n - 1, -distance / error))


def sign_flip_p(numbers: Sequence[float], at: float = 0.0) -> float:
    """Share of the 2^n ways to sign the distances from `at` whose sum is as far from 0 as the one seen.

    Exact where the numbers are symmetric around `at`, whatever their distribution. Beyond 16 numbers 20,000 seeded
    draws, the one seen counted among them. Fisher 1935, The Design of Experiments, section 21.
    """
    distances = np.asarray(numbers, np.float64) - at
    if not distances.size:
        return math.nan
    seen = abs(distances.sum()) - 1e-9 * np.abs(distances).sum()  # sums that differ by rounding are equal
    if distances.size <= EXACT:
        sums = distances[:1]  # the other half of the ways are these with all signs turned
        for distance in distances[1:]:
            sums = np.concatenate([sums + distance, sums - distance])
        return float(np.mean(np.abs(sums) >= seen))
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (DRAWS, distances.size))
    return (1 + int(np.count_nonzero(np.abs(signs @ distances) >= seen))) / (1 + DRAWS)


def location_p(numbers: Sequence[float], at: float = 0.0, floor: float = 0.0) -> float:
    """p of the test that both Student's and the exact one must pass: the larger of theirs."""
    return max(t_p(numbers, at, floor), sign_flip_p(numbers, at)) if len(numbers) > 1 else math.nan


def side(numbers: Sequence[float], at: float, alpha: float, floor: float = 0.0) -> int:
    """1 where the mean is above `at` at this level, -1 where it is below, 0 where that is not settled."""
    if not location_p(numbers, at, floor) <= alpha:
        return 0
    return 1 if math.fsum(numbers) / len(numbers) > at else -1


def equivalence_p(numbers: Sequence[float], margin: float, floor: float = 0.0) -> float:
    """p of the two one-sided t tests for a mean inside (-margin, margin): at most alpha exactly where the interval at
    1 - 2 alpha (90 % for .05) lies inside. Schuirmann 1987.
    """
    mean = abs(math.fsum(numbers) / len(numbers))
    outer = t_p(numbers, math.copysign(margin, math.fsum(numbers)), floor) / 2
    return outer if mean < margin else 1 - outer


def holm(p: Sequence[float], alpha: float = ALPHA) -> list[float]:
    """The level of each of m tests: the j-th smallest p is tested at alpha / (m - j + 1), until the first that fails;
    the rest keep its level. At most alpha for any error in the family, however the tests depend on each other.
    Holm 1979.
    """
    levels, level, passed = [alpha] * len(p), alpha, True
    for rank, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if passed:
            level = alpha / (len(p) - rank)
        levels[index] = level
        passed = passed and p[index] <= level
    return levels


def benjamini_hochberg(p: Sequence[float]) -> list[float]:
    """q of each test: the expected share of false findings among all with a p as small. Benjamini & Hochberg 1995."""
    from scipy.stats import false_discovery_control  # slow to import

    return [float(q) for q in false_discovery_control(p)] if len(p) else []


def mcnemar_p(only_first: int, only_second: int) -> float:
    """Exact two-sided p that an event is as likely under both of two conditions, from the pairs in which only one of
    them had it: both tails of a binomial with 1/2. McNemar 1947.
    """
    pairs = only_first + only_second
    return min(1.0, 2 * float(special.bdtr(min(only_first, only_second), pairs, 0.5))) if pairs else 1.0


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's, of two arms over seeds: pairing by seed pays where it is positive. None where an arm never varies."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.size < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


# ---------------------------------------------------------------- power


def power(effect: float, spread: float, n: int, alpha: float = ALPHA) -> float:
    """Probability that the t interval of n normal numbers with this mean and standard deviation excludes 0."""
    shift, half = effect / spread * math.sqrt(n), float(special.stdtrit(n - 1, 1 - alpha / 2)) * _spreads(n)
    return float(_WEIGHTS @ (special.ndtr(shift - half) + special.ndtr(-shift - half)))


def equivalence_power(margin: float, spread: float, n: int, alpha: float = ALPHA) -> float:
    """Probability that n normal numbers of mean 0 are found equivalent within the margin."""
    room = margin / spread * math.sqrt(n) - float(special.stdtrit(n - 1, 1 - alpha)) * _spreads(n)
    return float(_WEIGHTS @ (2 * special.ndtr(np.maximum(room, 0)) - 1))


_NODES, _WEIGHTS = special.roots_sh_legendre(100)  # of integrals over [0, 1]


@functools.lru_cache(maxsize=1000)
def _spreads(n: int) -> np.ndarray:
    """The standard deviations that n standard normal numbers show, at quantiles over which an integral is a weighted
    sum. SciPy's noncentral t would do without, but is NaN far out.
    """
    return np.sqrt(special.chdtri(n - 1, _NODES) / (n - 1))


def detectable(n: int, spread: float, alpha: float = ALPHA, chance: float = POWER) -> float:
    """The smallest effect that n seeds find with probability `chance`; infinite where the exact test of n numbers has
    no outcome as rare as alpha.
    """
    return spread * _least(lambda effect: power(effect, 1.0, n, alpha) >= chance) if n >= fewest(alpha) else math.inf


def detectable_margin(n: int, spread: float, alpha: float = ALPHA, chance: float = POWER) -> float:
    """The smallest margin within which n seeds find two equal arms equivalent with probability `chance`."""
    return spread * _least(lambda margin: equivalence_power(margin, 1.0, n, alpha) >= chance) if n > 1 else math.inf


def _least(enough: Callable[[float], bool]) -> float:
    """The smallest number that is enough, by bisection."""
    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def least_spread(spread: float, n: int, confidence: float = 0.9) -> float:
    """The standard deviation that the true one exceeds with this confidence, where n normal numbers showed `spread`."""
    return spread * math.sqrt((n - 1) / float(special.chdtri(n - 1, 1 - confidence)))


def fewest(alpha: float = ALPHA) -> int:
    """The smallest n whose exact test can reach alpha: its least p is 2 / 2^n."""
    return math.ceil(math.log2(2 / alpha))


def needed(effect: float, spread: float, alpha: float = ALPHA, chance: float = POWER) -> int | None:
    """The seeds that find such an effect with probability `chance`; None where 10,000 do not."""
    if effect == 0 or spread == 0:
        return None if effect == 0 else fewest(alpha)
    return _smallest(lambda n: power(effect, spread, n, alpha) >= chance, fewest(alpha))


def needed_for_equivalence(margin: float, spread: float, alpha: float = ALPHA, chance: float = POWER) -> int | None:
    """The seeds that find two arms equivalent with probability `chance` where they are equal; None beyond 10,000."""
    if margin == 0 or spread == 0:
        return None if margin == 0 else fewest(alpha)
    return _smallest(lambda n: equivalence_power(margin, spread, n, alpha) >= chance, fewest(alpha))


def _smallest(enough: Callable[[int], bool], low: int) -> int | None:
    """The smallest n from `low` on that is enough; with more seeds power only grows."""
    if not enough(MOST_SEEDS):
        return None
    high = MOST_SEEDS
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low
