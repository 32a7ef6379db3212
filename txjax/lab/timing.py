"""Speeds: of a train step, compiling apart, beside a product of matrices that tells whether the machine is quiet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from txjax.batch import Batch
from txjax.config import Config
from txjax.models import build
from txjax.models.costs import train_flops_per_token
from txjax.parallel import make_layout
from txjax.train.hardware import product_flops
from txjax.train.loop import Batches
from txjax.train.programs import Programs

STEPS, SECONDS = 20, 3.0  # a figure is the median of so many steps, or of as many as fit into the time
WARM_UP, LEAST = 3, 2  # steps before the clock starts, where they fit into the time; and steps that are timed anyway
PROBE = 8  # steps of which the fastest prices a study


def training_speed(config: Config, seconds: float = SECONDS) -> dict[str, float]:
    """Figures of a config's train step on random tokens: seconds_per_step (median), tokens_per_second,
    flops_per_second (model FLOPs, what is computed again for memory not counted), share_of_peak (of the reference
    product's), compile_seconds, and quiet: the reference product's speed just now over its best in this process.
    """
    with jax.default_device(jax.devices()[0]):
        programs = Programs(config, build(config.model), make_layout(config.mesh))
        with programs.layout.scope():
            return _measured(programs, seconds)


def _measured(programs: Programs, seconds: float) -> dict[str, float]:
    config = programs.config
    shape = (config.train.batch_size, config.context)
    tokens = jax.random.randint(jax.random.key(config.train.seed), shape, 0, config.model.vocab, jnp.int32)
    batch = programs.to_devices(Batch(tokens=tokens, targets=tokens))
    step, compiling = programs.compile_train_step(Batch(*map(jax.device_get, (tokens, tokens))))
    state = programs.initial_state()

    def advance() -> Any:
        nonlocal state
        state, metrics = step(state, batch, programs.hyper)
        return metrics

    timed(advance, WARM_UP, seconds, least=1)
    before = product_flops(3)
    times = timed(advance, STEPS, seconds)
    median = statistics.median(times)
    count = shape[0] * shape[1]
    flops = train_flops_per_token(programs.model, config.context) * count / median
    return {
        "seconds_per_step": median,
        "tokens_per_second": count / median,
        "flops_per_second": flops,
        "share_of_peak": flops / best_product(),
        "compile_seconds": compiling,
        "quiet": before / best_product(),
    }


def timed(work: Callable[[], Any], times: int, seconds: float, least: int = LEAST) -> list[float]:
    """Seconds of each call, waited for: `times` of them, or as many as fit into `seconds`, but `least` in any case."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < times and (time.perf_counter() < end or len(found) < least):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return found


@cache
def best_product() -> float:
    """FLOP/s of the reference product in this process at its best: what a machine gives when nobody else asks."""
    return max(product_flops(10) for _ in range(5))


def fastest(take_step: Callable[[Any, Batch], tuple[Any, Any]], state: Any, batches: Batches) -> float:
    """Seconds of the fastest of a few train steps."""
    seconds = []
    for _ in range(PROBE):
        start = time.perf_counter()
        state, metrics = take_step(state, next(batches))
        jax.block_until_ready(metrics)
        seconds.append(time.perf_counter() - start)
    return min(seconds)
