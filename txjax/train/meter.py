"""From the metrics of steps, which lie on the device, to figures on the host, one interval late."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from txjax.train.hardware import memory_in_use
from txjax.train.step import StepMetrics

# Steps that the device is given beyond the one that it works on: it never waits for the host, and yet a signal, which
# can stop a run only once they are over, is answered soon, and a progress bar tells what has been done.
AHEAD = 2


class Interval(NamedTuple):
    """Steps between two logging points, fetched: the last one's number, their figures, and each step's metrics."""

    step: int
    figures: dict[str, float]
    steps: list[tuple[int, StepMetrics]]


@dataclass
class Meter:
    """Gathers step metrics and turns whole intervals into figures.

    train/mfu is flops_per_token * tokens/s / (peak of one device * devices): Chowdhery et al. 2022, appendix B, with
    the FLOPs of txjax.models.costs.train_flops_per_token.
    """

    flops_per_token: float
    peak: float | None
    devices: int
    running: list[tuple[int, StepMetrics]] = field(default_factory=list)
    ended: list[tuple[int, StepMetrics]] = field(default_factory=list)
    since: float = field(default_factory=time.perf_counter)

    def add(self, step: int, metrics: StepMetrics) -> None:
        """Note a step that the device has been given, and wait for the one that lies AHEAD steps before it."""
        self.running.append((step, metrics))
        if len(self.running) > AHEAD:
            jax.block_until_ready(self.running[-1 - AHEAD][1].loss)

    def turn(self) -> list[Interval]:
        """End the running interval, and fetch the one before it: while the device works on, the host reads what it
        has finished long ago.
        """
        fetched, self.ended, self.running = self.ended, self.running, []
        return self._fetch(fetched)

    def drain(self) -> list[Interval]:
        """Everything up to now, waiting for the device."""
        both, self.ended, self.running = (self.ended, self.running), [], []
        return self._fetch(*both)

    def restart_clock(self) -> None:
        """What was spent up to now (an evaluation, a checkpoint) is not training."""
        self.since = time.perf_counter()

    def _fetch(self, *intervals: list[tuple[int, StepMetrics]]) -> list[Interval]:
        """Figures of intervals that are read at one moment: their speed is that of all of them together."""
        return self._intervals(*self._read(intervals))

    def _read(self, intervals: Iterable[list[tuple[int, StepMetrics]]]) -> tuple[list[Any], float]:
        """The intervals that are not empty, on the host, and the seconds since the clock was last read."""
        fetched = jax.device_get([i for i in intervals if i])
        now = time.perf_counter()
        seconds, self.since = now - self.since, now
        return fetched, seconds

    def _intervals(self, fetched: list[list[tuple[int, StepMetrics]]], seconds: float) -> list[Interval]:
        tokens = sum(float(metrics.tokens) for interval in fetched for _, metrics in interval)
        return [self._figures(interval, tokens / max(seconds, 1e-9)) for interval in fetched]

    def _figures(self, interval: list[tuple[int, StepMetrics]], speed: float) -> Interval:
        step, last = interval[-1]
        figures = {
            "train/loss": float(np.mean([m.loss for _, m in interval], dtype=np.float64)),
            "train/learning_rate": float(last.learning_rate),
            "train/grad_norm": float(last.grad_norm),
            "train/update_to_weight": float(last.update_norm) / max(float(last.param_norm), 1e-30),
            "train/skipped_steps": int(last.skipped),
            "train/tokens_per_second": speed,
        }
        figures |= {f"train/{name}": float(value) for name, value in last.more.items()}
        if self.peak:
            figures["train/mfu"] = self.flops_per_token * speed / (self.peak * self.devices)
        if (memory := memory_in_use()) is not None:
            figures["train/memory_gib"] = memory / 2**30
        return Interval(step, figures, interval)
