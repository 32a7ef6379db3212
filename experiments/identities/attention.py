"""Attention: its scores, its weights, its heads, the worked examples."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from small import FLOAT32, normal, off

from txjax import probe
from txjax.lab.identities import identity, wrong
from txjax.ops import Causal, attention, linear
from txjax.ops.masks import Explicit
from txjax.ops.positions import Rope

PAIRS = 20_000
WIDTHS = (16, 64, 256, 1024)
T, H = 6, 8
WORDS = jnp.array([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])[None, None]  # the tutorial's "I love AI"


def variance(width: int, same: bool) -> float:
    q, k = normal(PAIRS, 1, 1, width), normal(PAIRS, 1, 1, width, seed=0 if same else 1)
    return float(probe.score_variance(q, k))


@identity("C01", "Var[q k] = d_k, d_k 16 to 1024", 0.05, "five standard errors of a variance over 20,000 pairs")
def variance_of_scores() -> float:
    return max(abs(variance(width, same=False) / width - 1) for width in WIDTHS)


@wrong("C01", "the same where q and k are not independent, q = k", 0.5, "Var[q q] = 2 d_k for normal components")
def variance_of_dependent_scores() -> float:
    return max(abs(variance(width, same=True) / width - 1) for width in WIDTHS)


def weights(mask: jax.Array | None = None) -> np.ndarray:
    q, k, v = (normal(2, 3, T, H, seed=seed) for seed in range(3))
    return np.asarray(attention(q, k, v, scale=H**-0.5, mask=None if mask is None else Explicit(mask))[1])


@identity("C03", "a row of weights sums to 1, to 0 where it sees no key, whatever the mask", 1e-6, FLOAT32)
def rows_sum_to_one() -> float:
    mask = jnp.asarray(np.random.default_rng(3).random((2, 3, T, T)) < 0.4).at[0, 0, 1].set(False)
    return float(np.abs(weights(mask).sum(-1) - np.asarray(mask).any(-1)).max())


@wrong("C03", "a column does, too", 0.1, "far beyond rounding")
def columns_sum_to_one() -> float:
    return float(np.abs(weights().sum(-2) - 1).max())


def causal_output(x_TH: jax.Array) -> tuple[jax.Array, jax.Array]:
    out, maps = attention(x_TH[None, None], x_TH[None, None], x_TH[None, None], scale=0.5, mask=Causal())
    return out[0, 0], maps[0, 0]


@identity("C04", "weights of later tokens, and d out_i / d x_j for j > i, are 0")
def later_tokens_count_nothing() -> float:
    later = np.triu_indices(T, 1)
    reach, maps = jax.jacobian(causal_output)(normal(T, H))
    moved = np.abs(np.asarray(reach)).max((1, 3))[later].max()
    seen = np.asarray(causal_output(normal(T, H))[1])[later].max()
    return float(max(moved, seen, np.abs(np.asarray(maps)[later]).max()))


def equivariance(mask: Causal | None) -> float:
    order = np.random.default_rng(5).permutation(T)
    q, k, v = (normal(1, 2, T, H, seed=seed) for seed in range(3))
    straight, _ = attention(q, k, v, scale=0.5, mask=mask)
    shuffled, _ = attention(q[:, :, order], k[:, :, order], v[:, :, order], scale=0.5, mask=mask)
    return off(shuffled, straight[:, :, order])


@identity("C05", "f(P x) = P f(x) for self-attention without mask and positions", 1e-6, FLOAT32)
def permuted_without_mask() -> float:
    return equivariance(None)


@wrong("C05", "the same with a causal mask: order would be invisible", 0.1, "the mask itself carries order")
def permuted_with_causal_mask() -> float:
    return equivariance(Causal())


@identity("C11", "h heads of width d/h are one d x d map, cut and reshaped", 1e-12, "float64, sums in another order")
def heads_are_one_matrix() -> float:
    with jax.enable_x64(True):
        x, w = (jnp.asarray(np.random.default_rng(seed).standard_normal((16, 16))) for seed in (0, 1))
        whole = linear(x, w).reshape(16, 4, 4)
        apart = jnp.stack([linear(x, w[:, 4 * head : 4 * head + 4]) for head in range(4)], axis=1)
        return max(off(whole, apart), off(linear(x, w.reshape(16, 4, 4)), apart))


def gauge(position: Rope | None) -> float:
    """How far weights move where W_Q becomes W_Q M and W_K becomes W_K M^-T."""
    x, w_q, w_k, m = (normal(1, 1, T, H), *(normal(H, H, seed=seed) for seed in (1, 2, 3)))
    m = m + 3 * jnp.eye(H)  # far from singular
    angles = None if position is None else position.angles(jnp.arange(T)[None], H)

    def maps(a: jax.Array, b: jax.Array) -> jax.Array:
        q, k = x @ a, x @ b
        if position is not None:
            q, k = position.rotate(q, angles), position.rotate(k, angles)
        return attention(q, k, x, scale=0.1)[1]

    return off(maps(w_q @ m, w_k @ jnp.linalg.inv(m).T), maps(w_q, w_k))


@identity("C13", "weights see W_Q and W_K through W_Q W_K^T alone", 1e-4, "float32, and the inverse of a matrix")
def product_of_projections() -> float:
    return gauge(None)


@wrong("C13", "the same with rotary positions", 0.01, "a rotation between the two does not commute with M")
def product_of_projections_with_rope() -> float:
    return gauge(Rope())


@identity("C13", "the rank of W_Q W_K^T is d_k = 4, of 16", 0.0, "a rank is a whole number")
def rank_of_the_product() -> float:
    w_q, w_k = (np.random.default_rng(seed).standard_normal((16, 4)) for seed in (1, 2))
    return abs(int(np.linalg.matrix_rank(w_q @ w_k.T)) - 4)


def worked_weights() -> np.ndarray:
    return np.asarray(attention(WORDS, WORDS, WORDS, scale=4**-0.5)[1][0, 0], np.float64)


@identity("C25", "the worked example's weights and outputs, by e^1, e^2, e^4", 1e-6, "float32")
def worked_example() -> float:
    e = math.exp
    rows = np.array([[e(1), e(0), e(1)], [e(0), e(4), e(2)], [e(1), e(2), e(2)]])
    rows /= rows.sum(1, keepdims=True)
    out = attention(WORDS, WORDS, WORDS, scale=4**-0.5)[0][0, 0]
    return max(off(worked_weights(), rows), off(out, rows @ np.asarray(WORDS[0, 0], np.float64)))


@wrong("E1", "its printed digits .422, .156, .422 and .844, .734 are rounded rightly", 5e-4, "half of the last digit")
def printed_digits() -> float:
    row = worked_weights()[0]
    out = row @ np.asarray(WORDS[0, 0], np.float64)
    return float(max(np.abs(row - [0.422, 0.156, 0.422]).max(), np.abs(out[:2] - [0.844, 0.734]).max()))


@identity("C26", "[1 0 1] [0 2 0] / sqrt 3 = 0")
def orthogonal_words() -> float:
    return abs(float(probe.scores(jnp.array([[[1.0, 0, 1]]]), jnp.array([[[0.0, 2, 0]]]))[0, 0, 0])) / 3**0.5


@identity("E8", "queries and keys of N(0, 1/d) inputs give scores of standard deviation 1", 0.1, "500 tokens")
def scores_of_scaled_weights() -> float:
    return abs(spread_of_scores(1 / 8**0.5) - 1)


@wrong("E8", "those of N(0, 1) weights, d = 8, do, too", 1.0, "they have a standard deviation of 8")
def scores_of_unscaled_weights() -> float:
    return abs(spread_of_scores(1.0) - 1)


def spread_of_scores(std: float) -> float:
    """Of x W_Q W_K^T y / sqrt d over draws of all four, d = 8."""
    x, y = normal(500, 1, 1, 8), normal(500, 1, 1, 8, seed=1)
    w_q, w_k = (std * normal(500, 1, 8, 8, seed=seed) for seed in (2, 3))
    return float(probe.score_variance(x @ w_q, y @ w_k) / 8) ** 0.5


@wrong(
    "E32", "products at d_k = 512 are in the hundreds: over half of 20,000 are above 100", 0.4, "their deviation is 23"
)
def size_of_products() -> float:
    products = probe.scores(normal(PAIRS, 1, 1, 512), normal(PAIRS, 1, 1, 512, seed=1))
    return 0.5 - float((jnp.abs(products) > 100).mean())
