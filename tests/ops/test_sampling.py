"""From logits to a token: which stay, with what probability, and the edges of each filter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import quick, softmax
from scipy import stats

from txjax.ops import filtered_logits, sample


def filtered(logits: Any, temperature: Any = 1.0, dtype: Any = jnp.float32, **more: Any) -> np.ndarray:
    logits, temperature = (
        jnp.atleast_2d(jnp.asarray(logits, dtype)),
        jnp.atleast_1d(jnp.asarray(temperature, jnp.float32)),
    )
    return np.asarray(filtered_logits(logits, temperature_B=temperature, **more))


def kept(*arguments: Any, **more: Any) -> list[list[int]]:
    return [list(np.flatnonzero(np.isfinite(row))) for row in filtered(*arguments, **more)]


COUNT = 20_000


@quick
def _draws(row: jax.Array) -> jax.Array:
    return sample(jnp.broadcast_to(row, (COUNT, len(row))), jax.random.split(jax.random.key(7), COUNT))


def draws(logits: Any) -> np.ndarray:
    """How often each of six tokens is drawn in COUNT draws, each with a key of its own; tokens left out are never."""
    row = np.full(6, -np.inf, np.float32)
    row[: len(logits)] = logits
    return np.bincount(_draws(row), minlength=6)


# Temperature


@pytest.mark.bug("karpathy/nanoGPT#738", "google-deepmind/gemma#562", "ggml-org/ggml#37", "sgl-project/sglang#23296")
def test_temperature_zero_is_the_argmax_in_the_rows_that_ask_for_it():
    logits = np.array([[1.0, 3.0, 3.0, -2.0]] * 3)
    rows = filtered(logits, [0.0, 1.0, 1e-6])
    assert np.isfinite(rows[0]).nonzero()[0].tolist() == [1]  # of equals, the first
    np.testing.assert_allclose(rows[1], logits[1])
    assert not np.isnan(rows).any()
    np.testing.assert_allclose(softmax(rows[2]), [0, 0.5, 0.5, 0])
    assert draws(rows[0])[1] == COUNT
    for more in ({"top_k": 2}, {"top_p": 0.5}, {"top_k": 3, "top_p": 0.9}):
        assert kept(logits[:1], 0.0, **more) == [[1]]


def test_temperature_divides_the_logits():
    np.testing.assert_allclose(filtered([1.0, 2.0, -4.0], 2.0), [[0.5, 1.0, -2.0]])


# Filters


def test_top_k_keeps_the_k_likeliest_and_no_more_than_there_are():
    logits = [0.1, 5.0, -1.0, 2.0, 3.0]
    assert kept(logits, top_k=2) == [[1, 4]] and kept(logits, top_k=1) == [[1]]
    assert kept(logits, top_k=99) == [[0, 1, 2, 3, 4]]


@pytest.mark.bug("AI-Hypercomputer/maxtext#950")
def test_all_that_tie_with_the_kth_stay_and_top_p_never_keeps_too_few():
    assert kept([1.0, 4.0, 1.0, 1.0, 0.0], top_k=2) == [[0, 1, 2, 3]]
    logits = np.log([0.4, 0.2, 0.2, 0.2])
    for p in (0.3, 0.5, 0.7, 0.9):
        (rest,) = kept(logits, top_p=p)
        assert np.exp(logits)[rest].sum() >= p - 1e-6
        assert np.exp(logits)[rest[:-1]].sum() < p


@pytest.mark.parametrize(("p", "tokens"), [(0.39, [2]), (0.5, [1, 2]), (0.71, [1, 2, 3]), (0.95, [0, 1, 2, 3])])
def test_top_p_is_the_smallest_set_that_reaches_it(p: float, tokens: list[int]):
    assert kept(np.log([0.1, 0.3, 0.4, 0.2]), top_p=p) == [tokens]


def test_top_p_may_differ_from_row_to_row():
    logits = np.tile(np.log([0.1, 0.3, 0.4, 0.2]), (2, 1))
    assert kept(logits, [1.0, 1.0], top_p=jnp.array([0.39, 0.71])) == [[2], [1, 2, 3]]


@pytest.mark.bug("ml-explore/mlx-lm#1912", "BlinkDL/ChatRWKV#170", "huggingface/transformers#18976")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_the_extremes_of_top_p(dtype: Any):
    logits = np.random.default_rng(0).standard_normal(4096) * 4
    for p in (1e-8, 0.0):
        assert kept(logits, dtype=dtype, top_p=p) == [[int(np.argmax(jnp.asarray(logits, dtype)))]]
    whole = filtered(logits, dtype=dtype, top_p=1.0)
    assert whole.dtype == np.float32  # also of bfloat16 logits
    np.testing.assert_array_equal(whole, filtered(logits, dtype=dtype))
    assert kept(np.zeros(4096), dtype=dtype, top_p=1e-8) == [[0]]
    assert len(kept(np.zeros(4096), dtype=dtype, top_p=1.0)[0]) == 4096
    assert len(kept(np.zeros(4096), dtype=dtype, top_p=0.5)[0]) == 2048


@pytest.mark.bug("openai/gpt-2#187")
def test_draws_follow_temperature_then_top_k_then_top_p():
    """With T = 2, k = 3 and p = .7, by hand: exp(2), exp(1), exp(.75) share .605, .222, .173, so two tokens stay.

    top_p before top_k would keep three (.430, .158 of all), top_p at T = 1 one (.82).
    """
    logits = [4.0, 2.0, 1.5, 1.0, 1.0, 1.0]
    left = filtered(logits, 2.0, top_k=3, top_p=0.7)
    assert kept(logits, 2.0, top_k=3, top_p=0.7) == [[0, 1]]
    observed = draws(left[0])
    share = np.exp([2.0, 1.0]) / np.exp([2.0, 1.0]).sum()
    assert observed[2:].sum() == 0
    assert stats.chisquare(observed[:2], COUNT * share).pvalue > 1e-3


def test_draws_follow_the_softmax():
    logits = np.array([0.0, 1.0, -1.0, 2.0, 0.5])
    observed = draws(logits)
    assert observed[5] == 0
    assert stats.chisquare(observed[:5], COUNT * softmax(logits)).pvalue > 1e-3


def test_a_rows_draw_depends_on_its_own_key_alone():
    keys = jax.random.split(jax.random.key(0), 8)
    logits = jnp.zeros((8, 1000))
    together = sample(logits, keys)
    assert together.dtype == jnp.int32 and len(set(together.tolist())) > 6
    np.testing.assert_array_equal(sample(logits[3:5], keys[3:5]), together[3:5])
