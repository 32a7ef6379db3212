"""A profiler trace of some steps of a run, on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import jax

from txjax.batch import Batch
from txjax.train.loop import TakeStep
from txjax.train.state import State
from txjax.train.step import StepMetrics


@contextmanager
def traced(take_step: TakeStep, step: int, window: tuple[int, int] | None, folder: Path) -> Iterator[TakeStep]:
    """`take_step`, with jax's profiler running in the window: the number of its first step, and how many.

    step: how many were taken before. The trace lands in folder/plugins/profile, where TensorBoard's profile plugin
    and xprof look for it. A window that begins before this start's first step is not traced.
    """
    if window is None:
        yield take_step
        return
    first, count = window
    running = False

    def watched(state: State, batch: Batch) -> tuple[State, StepMetrics]:
        nonlocal step, running
        step += 1
        if step == first:
            jax.profiler.start_trace(folder)
            running = True
        state, metrics = take_step(state, batch)
        if running and step == first + count - 1:
            jax.block_until_ready(metrics)  # the last step's work belongs to the trace
            jax.profiler.stop_trace()
            running = False
        return state, metrics

    try:
        yield watched
    finally:
        if running:
            jax.profiler.stop_trace()
