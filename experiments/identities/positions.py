"""Positions: the sinusoidal code, rotary scores, and where order enters."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from small import FLOAT32, LENGTH, TOKENS, decoder, logits, normal, off

from txjax.batch import Batch
from txjax.lab.identities import identity, wrong
from txjax.ops import sinusoidal_code
from txjax.ops.positions import Alibi, Learned, Position, Rope, Sinusoidal

D, BASE = 128, 10_000.0
ANGLES = "float32 angles of up to 600 are off by 3e-5"


def code(count: int, width: int = D) -> np.ndarray:
    return np.asarray(sinusoidal_code(jnp.arange(count), width, base=BASE, pairs="interleaved"), np.float64)


@identity("C06", "PE(i + 37) = M PE(i) with one M for all i, of 2 x 2 rotations", 1e-4, ANGLES)
def offset_is_a_rotation() -> float:
    k, pe = 37, code(600)
    m = np.zeros((D, D))
    for pair in range(0, D, 2):
        a = k * BASE ** (-pair / D)
        m[pair : pair + 2, pair : pair + 2] = [[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]
    return off(pe[:-k] @ m.T, pe[k:])


@identity("C07", "PE(i) PE(i + k) = sum_j cos(w_j k) for all i; |PE|^2 = d/2", 1e-4, ANGLES + ", over products of 64")
def offset_is_one_product() -> float:
    pe, frequency = code(600), BASE ** (-np.arange(0, D, 2) / D)
    ks = (0, 1, 2, 10, 100)
    return max(off((pe[: 600 - k] * pe[k:]).sum(1) / 64, np.cos(k * frequency).sum() / 64 + np.zeros(1)) for k in ks)


@wrong("E36", "the product falls with every step of distance", 0.1, "it falls with waves")
def product_falls_monotonically() -> float:
    pe = code(600)
    return float(np.diff(pe @ pe[0]).max())


@identity("C08", "no two of 20,000 positions have one code")
def codes_are_unique() -> float:
    pe = np.asarray(sinusoidal_code(jnp.arange(20_000), 64, base=BASE, pairs="interleaved"))
    return len(pe) - len(np.unique(pe, axis=0))


@identity("C09", "sin and cos of pos / 10000^(2i/d) are those of pos / 10000^(k/d), k even", 1e-5, "float32 angles")
def two_notations() -> float:
    want = np.zeros((100, 64))
    for k in range(0, 64, 2):
        angle = np.arange(100) / 10000 ** (k / 64)
        want[:, k], want[:, k + 1] = np.sin(angle), np.cos(angle)
    return off(code(100, 64), want)


@wrong("E4", "the longest wavelength is 10000 * 2 pi, at d = 512", 0.02, "it is 10000^((d-2)/d) * 2 pi = 60,611")
def longest_wavelength() -> float:
    sine, cosine = code(1001, 512)[1000, -2:]  # the slowest pair, a thousand positions on
    return abs(1000 * 2 * math.pi / math.atan2(sine, cosine) / (10_000 * 2 * math.pi) - 1)


def turned_scores(q: np.ndarray, k: np.ndarray, starts: np.ndarray, distance: int) -> np.ndarray:
    """q k of pairs (P, H) with the query `distance` after the key, for each start: (starts, P)."""
    rope, width = Rope(), q.shape[-1]

    def turned(x: np.ndarray, position: int) -> np.ndarray:
        x_11PH = jnp.asarray(x, jnp.float32)[:, None, None]
        angles = rope.angles(jnp.full((len(x), 1), position), width)
        return np.asarray(rope.rotate(x_11PH, angles), np.float64)[:, 0, 0]

    return np.stack([(turned(q, start + distance) * turned(k, start)).sum(-1) for start in starts])


@identity(
    "C10", "the rotary score of two tokens depends on their distance alone, and lengths are kept", 1e-5, "float32"
)
def scores_by_distance() -> float:
    q, k = np.asarray(normal(1, D)), np.asarray(normal(1, D, seed=1))
    size = float(np.linalg.norm(q) * np.linalg.norm(k))
    spreads = [np.ptp(turned_scores(q, k, np.arange(0, 200, 20), d)) / size for d in (0, 3, 9)]
    return max(*spreads, abs(turned_scores(q, q, np.array([50]), 0).item() / (q**2).sum() - 1))


@identity("C38", "rotary scores of independent q and k are as large at distance 4096 as at 0", 0.05, "4000 pairs")
def no_decay() -> float:
    q, k = np.asarray(normal(4000, D)), np.asarray(normal(4000, D, seed=1))
    spread = [turned_scores(q, k, np.array([0]), d).std() for d in (0, 16, 128, 1024, 4096)]
    return max(abs(s / spread[0] - 1) for s in spread)


@wrong("E11", "rotary scores fall with every step of distance, q = k", 0.1, "they fall with waves, below 0 at 4096")
def decay_is_monotone() -> float:
    ones = np.ones((1, D))
    scores = [turned_scores(ones, ones, np.array([0]), d).item() / D for d in range(0, 600, 4)]
    return float(np.diff(scores).max())


def moved(position: Position) -> float:
    """How far logits move where all positions are moved on by 5."""
    model = decoder(position=position)
    there = Batch(tokens=TOKENS, positions=jnp.arange(LENGTH)[None] + 5)
    return off(logits(model, there), logits(model, Batch(tokens=TOKENS)))


@identity("C40", "rotary positions, which enter in every layer, do not see a shift of all positions", 1e-5, FLOAT32)
def shifted_rope() -> float:
    return moved(Rope())


@wrong("C40", "nor do sinusoidal ones, which are added once", 1e-3, "far beyond rounding")
def shifted_sinusoidal() -> float:
    return moved(Sinusoidal())


@wrong("C40", "nor does a learned table", 1e-3, "far beyond rounding")
def shifted_learned() -> float:
    return moved(Learned())


@wrong("E12", "without positions a causal model sees no order", 0.01, "the causal mask is one")
def order_without_positions() -> float:
    model = decoder(position="none")
    swapped = TOKENS[:, jnp.array([1, 0, *range(2, LENGTH)])]
    return off(logits(model, Batch(tokens=swapped))[:, -1], logits(model, Batch(tokens=TOKENS))[:, -1])


@identity("C05", "without positions and mask a whole model sees none", 1e-5, FLOAT32)
def order_without_mask() -> float:
    model = decoder(position="none", causal=False)
    swapped = TOKENS[:, jnp.array([1, 0, *range(2, LENGTH)])]
    return off(logits(model, Batch(tokens=swapped))[:, -1], logits(model, Batch(tokens=TOKENS))[:, -1])


@identity("E5", "rotary positions and ALiBi add nothing to the embeddings")
def not_all_positions_are_added() -> float:
    x, positions = normal(1, LENGTH, 16), jnp.arange(LENGTH)[None]
    return max(off(scheme.embed(x, positions, {}), x) for scheme in (Rope(), Alibi()))
