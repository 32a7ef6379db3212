"""Learning-rate schedules as factors of the peak, so that the peak itself may be a traced value."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.schema import Kind, require


class Schedule(Kind, home="txjax.ops.schedules"):
    """The factor of the peak rate at update s of n, s = 0 .. n-1.

    With a warm-up of w updates the factor rises as (s + 1) / w, so that the first update already moves and the
    peak is reached at s = w - 1; what comes after is each schedule's own `decay` from there to s = n - 1.
    """

    warmup: int = 0

    def check(self) -> None:
        require(self.warmup >= 0, f"warmup must not be negative, got {self.warmup}")
        final = getattr(self, "final", 0.0)
        require(0.0 <= final <= 1.0, f"final is a share of the peak, in [0, 1], got {final}")

    def factor(self, step: Int[Array, ""], steps: int) -> Float[Array, ""]:
        s = jnp.asarray(step, jnp.float32)
        peak = max(self.warmup - 1, 0)
        after = self.decay(s, float(peak), float(steps - 1))
        return jnp.where(s < peak, (s + 1) / max(self.warmup, 1), after)

    def decay(self, s: Array, peak: float, last: float) -> Array:
        """The factor at update s >= peak; 1 at s = peak."""
        raise NotImplementedError


def progress(s: Array, start: float, end: float) -> Array:
    """How far s has come from start to end, in [0, 1]."""
    return jnp.clip((s - start) / max(end - start, 1.0), 0.0, 1.0)


@dataclass(frozen=True)
class Constant(Schedule, kind="constant"):
    """1 after the warm-up."""

    warmup: int = 0

    def decay(self, s: Array, peak: float, last: float) -> Array:
        return jnp.ones_like(s)


@dataclass(frozen=True)
class Linear(Schedule, kind="linear"):
    """A straight line from 1 to `final`, a share of the peak, at the last update."""

    warmup: int = 0
    final: float = 0.0

    def decay(self, s: Array, peak: float, last: float) -> Array:
        return 1 - (1 - self.final) * progress(s, peak, last)


@dataclass(frozen=True)
class Cosine(Schedule, kind="cosine"):
    """final + (1 - final) (1 + cos(pi p)) / 2, p from 0 to 1 at the last update. Loshchilov and Hutter 2017."""

    warmup: int = 0
    final: float = 0.1

    def decay(self, s: Array, peak: float, last: float) -> Array:
        return self.final + (1 - self.final) * 0.5 * (1 + jnp.cos(jnp.pi * progress(s, peak, last)))


@dataclass(frozen=True)
class InverseSqrt(Schedule, kind="inverse_sqrt"):
    """sqrt(w / (s + 1)) after a warm-up of w updates: Noam's schedule, Vaswani et al. 2017, section 5.3."""

    warmup: int = 4000

    def decay(self, s: Array, peak: float, last: float) -> Array:
        return jnp.sqrt((peak + 1) / (s + 1))


@dataclass(frozen=True)
class WarmupStableDecay(Schedule, kind="wsd"):
    """1 until the last `decay_steps` updates, then a straight line to `final`. Hu et al. 2024."""

    warmup: int = 0
    decay_steps: int = 100
    final: float = 0.0

    def check(self) -> None:
        super().check()
        require(self.decay_steps >= 0, f"decay_steps must not be negative, got {self.decay_steps}")

    def decay(self, s: Array, peak: float, last: float) -> Array:
        return 1 - (1 - self.final) * progress(s, max(last - self.decay_steps, peak), last)
