"""What every side of decode.py computes: sizes, weights, prompts, and how its texts are timed.

Needs NumPy alone: the peers' environment has no jax.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LAYERS, WIDTH, HEADS, HIDDEN, VOCAB, CONTEXT = 12, 256, 8, 688, 8192, 1024
HEAD = WIDTH // HEADS
NORM_EPS, THETA = 1e-5, 10_000.0
ROWS, PROMPT, LONG_PROMPT = (1, 16), 32, 512
POSITIONS = (256, 512, 768)  # of a single text, after so many tokens
COMPARED = 16  # new tokens that all sides must share

Generate = Callable[[np.ndarray, int], np.ndarray]


class Task(NamedTuple):
    form: str
    tokens: int
    repeats: int


def task() -> Task:
    """From the command line of a side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    return Task(**vars(parser.parse_args()))


def weights() -> dict[str, np.ndarray]:
    """By their paths in txjax; layers are stacked, projections are split into heads."""
    draw = np.random.default_rng(0)
    L, D, N, H, F = LAYERS, WIDTH, HEADS, HEAD, HIDDEN
    block = "layers/block_0/"
    shapes: dict[str, tuple[int, ...]] = {"embedding/w": (VOCAB, D), "head/w": (D, VOCAB)}
    shapes |= {f"{block}attention/{name}/w": (L, D, N, H) for name in ("query", "key", "value")}
    shapes |= {f"{block}attention/out/w": (L, N, H, D), f"{block}dense/out/w": (L, F, D)}
    shapes |= {f"{block}dense/{name}/w": (L, D, F) for name in ("gate", "in")}
    gains = {"final_norm/gain": (D,), f"{block}mixer_norm/gain": (L, D), f"{block}feedforward_norm/gain": (L, D)}
    drawn = {name: (0.05 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    return drawn | {name: np.ones(shape, np.float32) for name, shape in gains.items()}


def prompts(rows: int, length: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, VOCAB, (rows, length))


def run(generate: Generate, of: Task, version: str) -> None:
    """Time a side and print what came of it as a JSON line.

    generate: the greedy tokens after prompts, (rows, count).
    A step is what each token after the first one adds: time for them all less that for one, over their number.
    """

    def first_and_step(prompt: np.ndarray) -> tuple[float, float]:
        one = _seconds(lambda: generate(prompt, 1), of.repeats)
        many = _seconds(lambda: generate(prompt, 1 + of.tokens), of.repeats)
        return one, (many - one) / of.tokens

    first_tokens = {rows: generate(prompts(rows, PROMPT), COMPARED).tolist() for rows in ROWS}
    times: dict[str, float] = {}
    for rows in ROWS:
        times[f"first, batch {rows}"], times[f"step, batch {rows}"] = first_and_step(prompts(rows, PROMPT))
    for position in POSITIONS:
        first, times[f"step at {position}"] = first_and_step(prompts(1, position))
        if position == LONG_PROMPT:
            times[f"prefill of {LONG_PROMPT}"] = first
    print(json.dumps({"tokens": first_tokens, "seconds": times, "version": version}))


def _seconds(work: Callable[[], object], repeats: int) -> float:
    """Median time, after a first call that may compile."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
