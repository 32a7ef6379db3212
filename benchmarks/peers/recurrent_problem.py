"""What every side of recurrent.py computes: first weights by their paths in txjax, and the batch. NumPy alone."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

LAYERS, VOCAB, TOKENS = 2, 65, 4096  # tokens: of a step
RATE, BETAS, EPS = 1e-3, (0.9, 0.95), 1e-8
GATES = {"rnn": 1, "gru": 3, "lstm": 4}


class Problem(NamedTuple):
    form: str
    cell: str
    width: int
    length: int
    steps: int


def problem() -> Problem:
    """From the command line of a side."""
    parser = argparse.ArgumentParser()
    for name in ("form", "cell"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("width", "length", "steps"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return Problem(**vars(parser.parse_args()))


def weights(task: Problem) -> dict[str, np.ndarray]:
    """Matrices of N(0, 1/width), biases of zero."""
    draw = np.random.default_rng(0)
    D, G, layer = task.width, GATES[task.cell], f"layers/block_0/{task.cell}"
    shapes = {
        "embedding/w": (VOCAB, D),
        f"{layer}/input/w": (LAYERS, D, G, D),
        f"{layer}/recurrent/w": (LAYERS, D, G, D),
        "head/w": (D, VOCAB),
    }
    first = {name: (D**-0.5 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    first[f"{layer}/input/b"] = np.zeros((LAYERS, G, D), np.float32)
    if task.cell == "gru":
        first[f"{layer}/b"] = np.zeros((LAYERS, D), np.float32)
    return first


def batch(task: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets."""
    tokens, targets = np.random.default_rng(1).integers(0, VOCAB, (2, TOKENS // task.length, task.length))
    return tokens.astype(np.int32), targets.astype(np.int32)
