"""What every side of train_step.py computes: sizes, first weights, the batch, and how its steps are timed.

Needs NumPy alone: torch's environment has no jax.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 4, 128, 4, 128, 16
HEAD, HIDDEN = WIDTH // HEADS, 4 * WIDTH
RATE, BETAS, EPS, DECAY, CLIP = 1e-3, (0.9, 0.95), 1e-8, 0.1, 1.0  # the decay is of matrices, not of embeddings
NORM_EPS = 1e-5
COMPARED, WARM_UP = 5, 3  # steps whose losses all sides must share, then steps more before the clock starts
RUN, DISTURBED, PATIENCE = 5, 0.03, 60.0  # see undisturbed; calls, a share of all CPUs, seconds
TICK = 0.01  # of /proc/stat, seconds


class Problem(NamedTuple):
    form: str
    vocab: int
    bias: bool
    steps: int


def problem() -> Problem:
    """From the command line of a side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", required=True)
    parser.add_argument("--vocab", type=int, required=True)
    parser.add_argument("--bias", action="store_true")
    parser.add_argument("--steps", type=int, required=True)
    return Problem(**vars(parser.parse_args()))


def weights(vocab: int, bias: bool) -> dict[str, np.ndarray]:
    """First weights by their paths in txjax; layers are stacked, projections are split into heads."""
    draw = np.random.default_rng(0)
    D, N, H, F = WIDTH, HEADS, HEAD, HIDDEN
    block = "layers/block_0/"
    shapes: dict[str, tuple[int, ...]] = {"embedding/w": (vocab, D), "position/table": (CONTEXT, D)}
    ones: dict[str, tuple[int, ...]] = {"final_norm/gain": (D,)}
    zeros: dict[str, tuple[int, ...]] = {"final_norm/bias": (D,)}
    for name in ("query", "key", "value"):
        shapes[f"{block}attention/{name}/w"] = (LAYERS, D, N, H)
        zeros[f"{block}attention/{name}/b"] = (LAYERS, N, H)
    for name, into, out in (("attention/out", (N, H), (D,)), ("dense/in", (D,), (F,)), ("dense/out", (F,), (D,))):
        shapes[f"{block}{name}/w"] = (LAYERS, *into, *out)
        zeros[f"{block}{name}/b"] = (LAYERS, *out)
    for name in ("mixer_norm", "feedforward_norm"):
        ones[f"{block}{name}/gain"] = (LAYERS, D)
        zeros[f"{block}{name}/bias"] = (LAYERS, D)
    first = {name: (0.02 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    first |= {name: np.ones(shape, np.float32) for name, shape in ones.items()}
    return first | ({name: np.zeros(shape, np.float32) for name, shape in zeros.items()} if bias else {})


def decayed(name: str) -> bool:
    """Whether a weight is decayed: the matrices of the layers are."""
    return name.startswith("layers/") and name.endswith("/w")


def batch(vocab: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets."""
    draw = np.random.default_rng(1)
    tokens, targets = draw.integers(0, vocab, (2, BATCH, CONTEXT))
    return tokens.astype(np.int32), targets.astype(np.int32)


def run(step: Callable[[], Any], product: Callable[[], Any], steps: int, **facts: Any) -> None:
    """Time a side and print what came of it as a JSON line.

    step: takes one optimizer step and returns its loss, once it is computed.
    product: computes a product of two 1024 x 1024 matrices; the fastest of many is the machine's peak.
    """
    losses = [float(step()) for _ in range(COMPARED)]
    for _ in range(WARM_UP):
        step()
    seconds, others = undisturbed(step, steps)
    peak = 2 * 1024**3 / min(undisturbed(product, 50)[0])
    print(json.dumps({"losses": losses, "seconds": seconds, "others": others, "peak_flops": peak, **facts}))


def undisturbed(work: Callable[[], Any], times: int) -> tuple[list[float], float]:
    """Seconds of each of `times` calls, made while other processes leave the CPUs alone, and the largest share of the
    CPUs that they had all the same.

    For PATIENCE seconds, RUN calls in a row are thrown away where others had more than DISTURBED; then they count.
    """
    seconds: list[float] = []
    worst, give_up = 0.0, time.monotonic() + PATIENCE
    while len(seconds) < times:
        run, others = watched(work, RUN)
        if others <= DISTURBED or time.monotonic() > give_up:
            seconds, worst = seconds + run, max(worst, others)
        while others > DISTURBED and time.monotonic() < give_up:
            others = watched(lambda: time.sleep(0.3), 1)[1]
    return seconds[:times], worst


def watched(work: Callable[[], Any], times: int) -> tuple[list[float], float]:
    """Seconds of each call, and the share of the machine's CPUs that other processes had meanwhile."""
    busy, own, start = _busy_seconds(), time.process_time(), time.perf_counter()
    ends = [start]
    for _ in range(times):
        work()
        ends.append(time.perf_counter())
    others = _busy_seconds() - busy - (time.process_time() - own) - 2 * TICK
    share = max(0.0, others) / ((os.cpu_count() or 1) * (ends[-1] - start))
    return [end - begin for begin, end in itertools.pairwise(ends)], share


def _busy_seconds() -> float:
    """CPU time that all processes of the machine have used; 0 where the kernel does not say."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _, _, *interrupts = map(int, file.readline().split()[1:8])
    except OSError:
        return 0.0
    return (user + nice + system + sum(interrupts)) * TICK
