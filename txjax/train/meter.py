"""From the metrics of steps, which lie on the device, to figures on the host, one interval late."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from txjax.train.hardware import memory_in_use
from txjax.train.step import StepMetrics


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
        self.running.append((step, metrics))

    def turn(self) -> Interval | None:
        """End the running interval, and fetch the one before it: while the device works on, the host reads what it
        has finished long ago.
        """
        fetched, self.ended, self.running = self.ended, self.running, []
        return self._figures(fetched) if fetched else None

    def drain(self) -> list[Interval]:
        """Everything up to now, waiting for the device."""
        return [interval for interval in (self.turn(), self.turn()) if interval is not None]

    def restart_clock(self) -> None:
        """What was spent up to now (an evaluation, a checkpoint) is not training."""
        self.since = time.perf_counter()

    def _figures(self, interval: list[tuple[int, StepMetrics]]) -> Interval:
        steps: list[StepMetrics] = jax.device_get([metrics for _, metrics in interval])
        now = time.perf_counter()
        seconds, self.since = now - self.since, now
        last = steps[-1]
        speed = float(sum(m.tokens for m in steps)) / max(seconds, 1e-9)
        figures = {
            "train/loss": float(np.mean([m.loss for m in steps], dtype=np.float64)),
            "train/learning_rate": float(last.learning_rate),
            "train/grad_norm": float(last.grad_norm),
            "train/update_to_weight": float(last.update_norm) / max(float(last.param_norm), 1e-30),
            "train/skipped_steps": int(last.skipped),
            "train/tokens_per_second": speed,
        }
        if self.peak:
            figures["train/mfu"] = self.flops_per_token * speed / (self.peak * self.devices)
        if (memory := memory_in_use()) is not None:
            figures["train/memory_gib"] = memory / 2**30
        return Interval(interval[-1][0], figures, [(n, m) for (n, _), m in zip(interval, steps, strict=True)])
