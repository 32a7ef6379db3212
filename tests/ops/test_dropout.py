"""Dropout with constant and traced rates."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.ops import dropout

x = jnp.asarray(np.random.default_rng(0).standard_normal((200, 100)), jnp.float32)
key = jax.random.key(0)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_what_is_kept_is_scaled_so_that_the_mean_stays(rate: float):
    y = np.asarray(dropout(x, key, rate))
    dropped = y == 0
    assert abs(dropped.mean() - rate) < 4 * (rate * (1 - rate) / x.size) ** 0.5
    np.testing.assert_allclose(y[~dropped], np.asarray(x)[~dropped] / (1 - rate), rtol=1e-6)
    mean = np.asarray(jax.vmap(lambda k: dropout(x[0], k, rate))(jax.random.split(key, 4000))).mean(0)
    error = np.abs(x[0]) * (rate / (1 - rate) / 4000) ** 0.5
    assert (np.abs(mean - x[0]) < 5 * error + 1e-6).all()


def test_a_traced_rate_is_a_constant_one():
    run = jax.jit(dropout)
    for rate in (0.0, 0.3, 0.9):
        traced, constant = run(x, key, jnp.float32(rate)), jax.jit(partial(dropout, rate=rate))(x, key)
        np.testing.assert_allclose(traced, constant, rtol=3e-7)
    np.testing.assert_array_equal(run(x, key, jnp.float32(0.0)), x)


def test_one_key_drops_the_same_and_another_key_other_entries():
    first, again, other = dropout(x, key, 0.5), dropout(x, key, 0.5), dropout(x, jax.random.key(1), 0.5)
    np.testing.assert_array_equal(first, again)
    assert 0.4 < ((np.asarray(first) == 0) != (np.asarray(other) == 0)).mean() < 0.6


def test_a_higher_rate_drops_more_of_the_same_entries():
    low, high = (np.asarray(dropout(x, key, rate)) == 0 for rate in (0.2, 0.6))
    assert (high | ~low).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float32])
def test_the_type_stays_and_dropped_entries_have_no_gradient(dtype: Any):
    y, back = jax.vjp(lambda x: dropout(x, key, 0.5), x.astype(dtype))
    (dx,) = back(jnp.ones_like(y))
    assert y.dtype == dx.dtype == dtype
    np.testing.assert_array_equal(dx.astype(jnp.float32), np.where(y == 0, 0, 2.0))
