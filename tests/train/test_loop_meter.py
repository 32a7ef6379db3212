"""Figures of a training run: their names, their speed, and what MFU counts."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Config, Train
from txjax.models import build, presets
from txjax.models.costs import train_flops_per_token
from txjax.train import meter as meter_module
from txjax.train.meter import Meter
from txjax.train.state import hyper, initial_state
from txjax.train.step import StepMetrics, make_train_step

TRAIN_FIGURES = {
    "train/loss", "train/learning_rate", "train/grad_norm", "train/update_to_weight", "train/skipped_steps",
    "train/tokens_per_second", "train/mfu", "train/memory_gib",
}  # fmt: skip


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The meter's clock; its one entry is the time."""
    now = [100.0]
    monkeypatch.setattr(meter_module.time, "perf_counter", lambda: now[0])
    return now


def metrics(tokens: float = 10, **values: float) -> StepMetrics:
    plain = dict.fromkeys(StepMetrics.__dataclass_fields__.keys() - {"more"}, 1.0)
    return StepMetrics(**{name: np.float32(v) for name, v in (plain | {"tokens": tokens} | values).items()})


def test_figures_of_an_interval_are_the_mean_loss_and_the_last_steps_values():
    meter = Meter(6.0, 100.0, 2)
    meter.add(1, metrics(loss=4.0, learning_rate=0.1, grad_norm=9.0))
    meter.add(2, metrics(loss=2.0, learning_rate=0.2, grad_norm=5.0, update_norm=0.5, param_norm=8.0, skipped=3))
    (interval,) = meter.drain()
    assert interval.step == 2
    assert set(interval.figures) == TRAIN_FIGURES
    wanted = {"train/loss": 3.0, "train/grad_norm": 5.0, "train/update_to_weight": 0.0625, "train/skipped_steps": 3}
    assert wanted.items() <= interval.figures.items()
    assert interval.figures["train/learning_rate"] == pytest.approx(0.2)


def test_a_loss_that_is_not_finite_shows_as_such_and_counts_as_no_number():
    meter = Meter(6.0, None, 1)
    meter.add(1, metrics(loss=math.nan))
    (interval,) = meter.drain()
    assert math.isnan(interval.figures["train/loss"])
    assert "train/mfu" not in interval.figures  # without a peak there is none


@pytest.mark.bug("gbionics/jaxsim#344", "anindex/gtmp#1")
def test_speed_leaves_out_what_came_before_the_first_interval_and_every_pause(clock: list[float]):
    meter = Meter(6.0, 100.0, 2)
    clock[0] += 1000.0  # the first call of the program
    speeds = []
    for step in range(1, 7):
        meter.add(step, metrics(tokens=10))
        if step % 2 == 0:
            speeds += [i.figures["train/tokens_per_second"] for i in meter.turn()]
        clock[0] += 2.0
    assert speeds == [5.0, 5.0]  # of the intervals that ended at steps 2 and 4
    speeds = [i.figures for i in meter.drain()]
    assert [f["train/tokens_per_second"] for f in speeds] == [10.0]  # two steps, fetched 2 s after the last turn
    assert speeds[0]["train/mfu"] == 6.0 * 10.0 / (100.0 * 2)
    clock[0] += 500.0  # an evaluation
    meter.restart_clock()
    meter.add(7, metrics(tokens=10))
    clock[0] += 2.0
    assert [i.figures["train/tokens_per_second"] for i in meter.drain()] == [5.0]


@pytest.mark.bug("pytorch/torchtitan#4366", "NVIDIA/Megatron-LM#831")
def test_tokens_are_those_that_count_and_flops_are_those_of_the_compiled_step():
    """XLA's own count of the unrolled train step, without recomputation, against the closed form times the tokens."""
    preset = presets.gpt2(width=64, num_layers=2, num_heads=4, context=128, vocab_size=256, remat="none", unroll="all")
    config = Config(model=preset, train=Train(batch_size=8))
    model = build(config.model)
    shape = jax.ShapeDtypeStruct((8, 128), np.int32)
    batch = Batch(tokens=shape, targets=shape, weights=jax.ShapeDtypeStruct((8, 128), np.float32))
    state = jax.eval_shape(lambda: initial_state(config, model))
    lowered = jax.jit(make_train_step(model, config)).lower(state, batch, hyper(config, model))
    counted = lowered.cost_analysis()["flops"]
    assert train_flops_per_token(model, 128) * 8 * 128 == pytest.approx(counted, rel=0.1)
