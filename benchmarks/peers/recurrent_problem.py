"""What every side of recurrent.py computes: first weights by their paths in txjax, and the batch. NumPy alone."""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np

LAYERS, VOCAB, TOKENS, HEADS = 2, 65, 4096, 4  # tokens: of a step; heads: of a Transformer
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
    """Matrices of N(0, 1/width), biases of zero, gains of one."""
    draw, D = np.random.default_rng(0), task.width
    shapes, zeros, ones = _transformer(D) if task.cell == "transformer" else _recurrent(task.cell, D)
    shapes = {"embedding/w": (VOCAB, D)} | shapes
    first = {name: (D**-0.5 * draw.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    first |= {name: np.zeros(shape, np.float32) for name, shape in zeros.items()}
    return first | {name: np.ones(shape, np.float32) for name, shape in ones.items()}


Shapes = dict[str, tuple[int, ...]]


def _recurrent(cell: str, D: int) -> tuple[Shapes, Shapes, Shapes]:
    G, layer = GATES[cell], f"layers/block_0/{cell}"
    matrices = {
        f"{layer}/input/w": (LAYERS, D, G, D),
        f"{layer}/recurrent/w": (LAYERS, D, G, D),
        "head/w": (D, VOCAB),
    }
    zeros: Shapes = {f"{layer}/input/b": (LAYERS, G, D)}
    return matrices, zeros | ({f"{layer}/b": (LAYERS, D)} if cell == "gru" else {}), {}


def _transformer(D: int) -> tuple[Shapes, Shapes, Shapes]:
    """GPT-2's, with a tied head and no positions."""
    N, H, F, block = HEADS, D // HEADS, 4 * D, "layers/block_0/"
    matrices: Shapes = {f"{block}attention/{name}/w": (LAYERS, D, N, H) for name in ("query", "key", "value")}
    zeros: Shapes = {f"{block}attention/{name}/b": (LAYERS, N, H) for name in ("query", "key", "value")}
    for name, into, out in (("attention/out", (N, H), (D,)), ("dense/in", (D,), (F,)), ("dense/out", (F,), (D,))):
        matrices[f"{block}{name}/w"], zeros[f"{block}{name}/b"] = (LAYERS, *into, *out), (LAYERS, *out)
    norms: Shapes = {f"{block}mixer_norm": (LAYERS, D), f"{block}feedforward_norm": (LAYERS, D), "final_norm": (D,)}
    biases = {f"{name}/bias": shape for name, shape in norms.items()}
    return matrices, zeros | biases, {f"{name}/gain": shape for name, shape in norms.items()}


def batch(task: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets."""
    tokens, targets = np.random.default_rng(1).integers(0, VOCAB, (2, TOKENS // task.length, task.length))
    return tokens.astype(np.int32), targets.astype(np.int32)
