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
from txjax.train.programs import Programs

STEPS, SECONDS = 20, 3.0  # a figure is the median of so many steps, or of as many as fit into the time
SIDE = 1024  # of the matrices of the reference product


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

    for _ in range(3):
        jax.block_until_ready(advance())
    before = reference_flops()
    times = timed(advance, STEPS, seconds)
    median = statistics.median(times)
    count = shape[0] * shape[1]
    flops = train_flops_per_token(programs.model, config.context) * count / median
    return {
        "seconds_per_step": median,
        "tokens_per_second": count / median,
        "flops_per_second": flops,
        "share_of_peak": flops / best_reference(),
        "compile_seconds": compiling,
        "quiet": before / best_reference(),
    }


def timed(work: Callable[[], Any], times: int, seconds: float) -> list[float]:
    """Seconds of each call, waited for: `times` of them, or as many as fit into `seconds`, at least three."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < times and (time.perf_counter() < end or len(found) < 3):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(time.perf_counter() - start)
    return found


def reference_flops() -> float:
    """FLOP/s of the fastest of a few products of two square matrices, now."""
    product, x = _reference()
    return 2 * SIDE**3 / min(timed(lambda: product(x, x), 10, 1.0))


@cache
def _reference() -> tuple[Any, jax.Array]:
    x = jnp.ones((SIDE, SIDE), jnp.float32)
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(x, x))
    return product, x


@cache
def best_reference() -> float:
    """The reference product's speed in this process at its best: what this machine gives when nobody else asks."""
    return max(reference_flops() for _ in range(5))
