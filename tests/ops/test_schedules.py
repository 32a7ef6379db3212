"""Learning-rate factors at every update, against the documented formula written as plain Python."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.ops.schedules import Constant, Cosine, InverseSqrt, Linear, Schedule, WarmupStableDecay
from txjax.schema import ConfigError

STEPS = 12


def factors(schedule: Schedule, steps: int = STEPS) -> np.ndarray:
    return np.asarray(jax.vmap(lambda s: schedule.factor(s, steps))(jnp.arange(steps)))


# what follows the peak, at update s of STEPS, the peak being at update p
DECAYS: dict[str, tuple[Any, Any]] = {
    "constant": (Constant, lambda s, p: 1.0),
    "linear": (lambda warmup: Linear(warmup, final=0.2), lambda s, p: 1 - 0.8 * (s - p) / (STEPS - 1 - p)),
    "cosine": (
        lambda warmup: Cosine(warmup, final=0.1),
        lambda s, p: 0.1 + 0.9 * (1 + math.cos(math.pi * (s - p) / (STEPS - 1 - p))) / 2,
    ),
    "inverse_sqrt": (InverseSqrt, lambda s, p: math.sqrt((p + 1) / (s + 1))),
    "wsd": (
        lambda warmup: WarmupStableDecay(warmup, decay_steps=4, final=0.25),
        lambda s, p: 1.0 if s <= STEPS - 5 else 1 - 0.75 * (s - (STEPS - 5)) / 4,
    ),
}


@pytest.mark.bug("meta-pytorch/torchtune#2010", "google-research/bert#1293", "AI-Hypercomputer/maxtext#2883")
@pytest.mark.bug("lightly-ai/lightly#1842")
@pytest.mark.parametrize("warmup", [0, 1, 2, 5, STEPS, STEPS + 8])
@pytest.mark.parametrize("kind", DECAYS)
def test_every_update_has_the_documented_factor(kind: str, warmup: int):
    make, decay = DECAYS[kind]
    found = factors(make(warmup))
    peak = max(warmup - 1, 0)
    want = [(s + 1) / warmup if s < peak else 1.0 if s == peak else decay(s, peak) for s in range(STEPS)]
    np.testing.assert_allclose(found, want, atol=1e-6)
    assert found[0] > 0  # the first update already moves


@pytest.mark.bug("meta-pytorch/torchtune#2010", "google-research/bert#1293", "AI-Hypercomputer/maxtext#2883")
@pytest.mark.parametrize("warmup", [0, 1, 5])
@pytest.mark.parametrize(("kind", "final"), [("linear", 0.2), ("cosine", 0.1), ("wsd", 0.25)])
def test_the_peak_comes_once_and_the_last_update_has_the_final_rate(kind: str, final: float, warmup: int):
    found = factors(DECAYS[kind][0](warmup))
    plateau = STEPS - 4 - max(warmup - 1, 0) if kind == "wsd" else 1
    assert found.max() == 1.0 and (found == 1.0).sum() == plateau
    np.testing.assert_allclose(found[-1], final, rtol=1e-6)
    assert (np.diff(found)[max(warmup - 1, 0) :] <= 0).all()


@pytest.mark.parametrize("schedule", [Constant(), Linear(), Cosine(), InverseSqrt(1), WarmupStableDecay(decay_steps=9)])
def test_a_run_of_one_update_makes_it_at_the_peak(schedule: Schedule):
    np.testing.assert_array_equal(factors(schedule, 1), 1.0)


def test_a_decay_longer_than_the_run_starts_at_the_peak():
    found = factors(WarmupStableDecay(3, decay_steps=1000, final=0.0))
    np.testing.assert_allclose(found[2:], np.linspace(1, 0, STEPS - 2), atol=1e-6)
    np.testing.assert_array_equal(factors(WarmupStableDecay(0, decay_steps=0)), 1.0)


def test_noams_schedule_is_the_papers():
    width, warmup = 512, 4000
    steps = np.array([1, 100, 3999, 4000, 4001, 100_000])
    paper = width**-0.5 * np.minimum(steps**-0.5, steps * warmup**-1.5)
    ours = [float(InverseSqrt(warmup).factor(jnp.int32(s - 1), 100_000)) for s in steps]
    np.testing.assert_allclose(ours, paper / (width**-0.5 * warmup**-0.5), rtol=1e-5)


def test_what_is_no_schedule_is_refused():
    with pytest.raises(ConfigError, match="warmup must not be negative, got -1"):
        Cosine(-1)
    with pytest.raises(ConfigError, match="share of the peak"):
        Linear(0, final=1.5)
    with pytest.raises(ConfigError, match="decay_steps"):
        WarmupStableDecay(0, decay_steps=-3)
