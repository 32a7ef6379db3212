"""Rotary positions: as rotations of complex numbers, and the four ways of stretching them as published."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.ops.positions import LinearScaling, Llama3Scaling, NTKScaling, Rope, YarnScaling
from txjax.ops.positions.rope import NoScaling
from txjax.schema import ConfigError

PAIRS = ("half", "interleaved")
H = 16
x = np.random.default_rng(0).standard_normal((2, 3, 5, H)).astype(np.float32)
POSITIONS = np.array([[0, 1, 2, 30, 100], [7, 0, 5, 5, 64]])


def turn(rope: Rope, x: Any, positions: Any) -> np.ndarray:
    positions = jnp.asarray(positions)
    return np.asarray(rope.rotate(jnp.asarray(x), rope.angles(positions, x.shape[-1])))


def turned_by_hand(x: np.ndarray, positions: np.ndarray, pairs: str, theta: float = 10_000.0) -> np.ndarray:
    """Each pair as a complex number, times exp(i position frequency), in float64."""
    d = x.shape[-1]
    first, second = (x[..., : d // 2], x[..., d // 2 :]) if pairs == "half" else (x[..., ::2], x[..., 1::2])
    frequency = np.array([theta ** (-2 * i / d) for i in range(d // 2)])
    z = (first + 1j * second) * np.exp(1j * positions[:, None, :, None] * frequency)
    y = np.empty(x.shape)
    if pairs == "half":
        y[..., : d // 2], y[..., d // 2 :] = z.real, z.imag
    else:
        y[..., ::2], y[..., 1::2] = z.real, z.imag
    return y


@pytest.mark.bug("vllm-project/vllm-metal#44")
@pytest.mark.parametrize("pairs", PAIRS)
def test_rotation_in_both_layouts_of_pairs(pairs: Any):
    ours = turn(Rope(pairs=pairs), x, POSITIONS)
    np.testing.assert_allclose(ours, turned_by_hand(x, POSITIONS, pairs), atol=5e-5)  # angles of up to 100 in float32
    np.testing.assert_array_equal(ours[0, :, 0], x[0, :, 0])  # position 0
    np.testing.assert_array_equal(ours[1, :, 1], x[1, :, 1])
    a, b = (ours[..., : H // 2], ours[..., H // 2 :]) if pairs == "half" else (ours[..., ::2], ours[..., 1::2])
    p, q = (x[..., : H // 2], x[..., H // 2 :]) if pairs == "half" else (x[..., ::2], x[..., 1::2])
    np.testing.assert_allclose(a**2 + b**2, p**2 + q**2, rtol=1e-5, atol=1e-6)


@pytest.mark.bug("vllm-project/vllm-metal#44")
@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.claim("C10")
def test_scores_depend_on_the_difference_of_positions_alone(pairs: Any):
    rope = Rope(pairs=pairs)
    query, key = x[:1, :1, :1], x[1:, :1, :1]
    starts = np.arange(0, 200, 20)
    near = [(turn(rope, query, [[m]]) * turn(rope, key, [[m + 9]])).sum() for m in starts]
    far = [(turn(rope, query, [[m]]) * turn(rope, key, [[m + 3]])).sum() for m in starts]
    size = float(np.linalg.norm(query) * np.linalg.norm(key))
    assert np.ptp(near) < 1e-5 * size and np.ptp(far) < 1e-5 * size
    assert abs(near[0] - far[0]) > 1e-2 * size


@pytest.mark.parametrize("pairs", PAIRS)
def test_a_fraction_turns_the_first_entries_as_a_narrower_head_would(pairs: Any):
    ours = turn(Rope(pairs=pairs, fraction=0.25), x, POSITIONS)
    np.testing.assert_array_equal(ours[..., 4:], x[..., 4:])
    np.testing.assert_array_equal(ours[..., :4], turn(Rope(pairs=pairs), x[..., :4], POSITIONS))
    assert np.abs(ours[..., :4] - x[..., :4]).max() > 0.5


@pytest.mark.bug("huggingface/transformers#29285", "KellerJordan/modded-nanogpt#39", "huggingface/candle#3520")
@pytest.mark.bug("sgl-project/sglang-jax#1473")
@pytest.mark.parametrize("first", [255, 4090])
def test_neighbours_stay_apart_in_bfloat16(first: int):
    positions = np.arange(first, first + 6)
    cos, sin = (np.asarray(t[0], np.float64) for t in Rope().angles(jnp.asarray(positions)[None], H))
    angle = positions[:, None] * 10_000.0 ** (-np.arange(0, H, 2) / H)
    np.testing.assert_allclose(cos, np.cos(angle), atol=1e-3)
    np.testing.assert_allclose(sin, np.sin(angle), atol=1e-3)
    vector = jnp.asarray(np.broadcast_to(x[0, 0, 0], (1, 1, 6, H)), jnp.bfloat16)
    ours = turn(Rope(), vector, positions[None])
    assert ours.dtype == jnp.bfloat16
    want = turned_by_hand(np.asarray(vector, np.float64), positions[None], "half")
    np.testing.assert_allclose(ours.astype(np.float64), want, atol=1e-2 * np.abs(want).max())
    assert len(np.unique(ours.astype(np.float64)[0, 0], axis=0)) == 6


# Scalings, each from its paper, one pair at a time in float64


def kept(pair: int, dim: int, theta: float) -> float:
    return theta ** (-2 * pair / dim)


def interpolated(pair: int, dim: int, theta: float, factor: float) -> float:
    """Chen et al. 2023: position m becomes m / factor."""
    return kept(pair, dim, theta) / factor


def ntk(pair: int, dim: int, theta: float, factor: float) -> float:
    """bloc97 2023: b' = b s^(d / (d - 2))."""
    return kept(pair, dim, theta * factor ** (dim / (dim - 2)))


def yarn(
    pair: int, dim: int, theta: float, factor: float, context: int, fast: float, slow: float, whole: bool = True
) -> float:
    """Peng et al. 2024, with the ramp of their code between the pairs that turn `fast` and `slow` times in context:
    pair p turns context theta^(-2p/dim) / 2 pi times. whole: rounded outwards.
    """

    def pair_of(turns: float) -> float:
        return math.log(context / (2 * math.pi * turns)) / math.log(theta) * dim / 2

    start, end = pair_of(fast), pair_of(slow)
    if whole:
        start, end = max(math.floor(start), 0), min(math.ceil(end), dim - 1)
    extrapolated = 1 - min(max((pair - start) / (end - start), 0.0), 1.0)
    f = kept(pair, dim, theta)
    return f / factor * (1 - extrapolated) + f * extrapolated


def llama3(pair: int, dim: int, theta: float, factor: float, low: float, high: float, context: int) -> float:
    """The model code of Llama 3.1: by wavelength, smooth between context / high and context / low."""
    f = kept(pair, dim, theta)
    wavelength = 2 * math.pi / f
    if wavelength < context / high:
        return f
    if wavelength > context / low:
        return f / factor
    smooth = (context / wavelength - low) / (high - low)
    return (1 - smooth) * f / factor + smooth * f


PUBLISHED = [
    (NoScaling(), kept, ()),
    (LinearScaling(factor=4.0), interpolated, (4.0,)),
    (NTKScaling(factor=8.0), ntk, (8.0,)),
    (YarnScaling(factor=16.0, original_context=4096), yarn, (16.0, 4096, 32.0, 1.0)),
    (YarnScaling(factor=2.0, original_context=256, beta_fast=8.0), yarn, (2.0, 256, 8.0, 1.0)),
    (Llama3Scaling(), llama3, (8.0, 1.0, 4.0, 8192)),
    (Llama3Scaling(factor=2.0, high_factor=10.0, original_context=100), llama3, (2.0, 1.0, 10.0, 100)),
    (YarnScaling(factor=32.0, original_context=4096, truncate=False), yarn, (32.0, 4096, 32.0, 1.0, False)),
]


@pytest.mark.bug("vllm-project/vllm#41236", "ml-explore/mlx-lm#1553", "ml-explore/mlx-lm#1554")
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0])
@pytest.mark.parametrize(("scaling", "formula", "numbers"), PUBLISHED, ids=lambda p: getattr(p, "kind", None))
def test_frequencies_are_the_published_ones(scaling: Any, formula: Any, numbers: tuple[float, ...], theta: float):
    dim = 128
    want = [formula(pair, dim, theta, *numbers) for pair in range(dim // 2)]
    np.testing.assert_allclose(scaling.frequencies(theta, dim), want, rtol=3e-6)


@pytest.mark.bug("vllm-project/vllm#41236", "ml-explore/mlx-lm#1553", "ml-explore/mlx-lm#1554")
def test_what_each_scaling_promises_at_its_ends():
    dim, theta = 64, 10_000.0
    plain = np.asarray(NoScaling().frequencies(theta, dim))
    slowed = {s.kind: plain / np.asarray(s.frequencies(theta, dim)) for s, _, _ in PUBLISHED[:6]}
    np.testing.assert_allclose(slowed["linear"], 4, rtol=1e-6)
    np.testing.assert_allclose(slowed["ntk"][[0, -1]], [1, 8], rtol=1e-5)
    np.testing.assert_allclose(slowed["yarn"][[0, -1]], [1, 2], rtol=1e-5)  # the last of PUBLISHED[:6] of its kind
    np.testing.assert_allclose(slowed["llama3"][[0, -1]], [1, 8], rtol=1e-5)
    for kind in ("ntk", "yarn", "llama3"):
        assert (np.diff(slowed[kind]) >= -1e-5).all()


def test_linear_scaling_divides_positions_and_yarn_makes_vectors_longer():
    stretched = turn(Rope(scaling=LinearScaling(factor=4.0)), x, 4 * POSITIONS)
    np.testing.assert_allclose(stretched, turn(Rope(), x, POSITIONS), atol=5e-5)
    yarn = turn(Rope(scaling=YarnScaling(factor=4.0)), x, POSITIONS)
    ratio = np.linalg.norm(yarn, axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(ratio, 0.1 * math.log(4) + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Rope(theta=1.0), "theta must exceed 1"),
        (lambda: Rope(fraction=0.0), "fraction must be in"),
        (lambda: Rope().validate(head_dim=5, width=10, num_heads=2), "even head_dim, got 5"),
        (lambda: LinearScaling(factor=0.0), "factor must be positive"),
        (lambda: YarnScaling(factor=0.5), "factor must be at least 1"),
        (lambda: Llama3Scaling(high_factor=1.0), "high_factor must exceed"),
    ],
)
def test_what_makes_no_rotation_is_refused(make: Any, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        make()
