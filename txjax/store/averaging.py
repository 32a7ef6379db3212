"""The mean of a run's last checkpoints, which often does better than any of them (Vaswani et al. 2017, section 6.1)."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from txjax.schema import require
from txjax.store.run import Run


def last_steps(run: Run, last: int, until: int) -> list[int]:
    """The steps of the last checkpoints of a run up to `until`, in order; ConfigError where it does not keep so many.

    The best checkpoint is kept besides the last ones, from any time: it is not taken for one of them.
    """
    require(last > 0, f"--average must be at least 1, got {last}")
    keeps = run.config.train.keep_last
    require(
        last <= keeps,
        f"--average={last} is more than the train.keep_last={keeps} checkpoints that the run keeps: ask for {keeps}, "
        f"or train with --config.train.keep_last={last}",
    )
    steps = [step for step in run.saved.steps()[-keeps:] if step <= until]
    require(
        last <= len(steps),
        f"--average={last}: {run.folder} has {len(steps)} of its last checkpoints up to step {until}, "
        f"{', '.join(map(str, steps)) or 'none'}: ask for at most as many",
    )
    return steps[-last:]


def average(run: Run, shapes: Any, *, last: int, until: int) -> Any:
    """The mean of the parameters of the last checkpoints up to step `until`, leaf by leaf.

    shapes: as for Checkpoints.restore, each with its sharding. Sums are float64, on the host, and one checkpoint is
    read at a time, so that memory does not grow with their number. ConfigError where the run does not keep so many.
    """
    saved, steps = run.saved, last_steps(run, last, until)
    sums = jax.tree.map(lambda shape: np.zeros(shape.shape, np.float64), shapes)
    for step in steps:  # without a name for what is read, which would keep it while the next is
        jax.tree.map(
            lambda total, leaf: np.add(total, leaf, out=total), sums, saved.restore(step, params=shapes).params
        )
    return jax.tree.map(
        lambda total, shape: jax.device_put((total / len(steps)).astype(shape.dtype), shape.sharding), sums, shapes
    )
