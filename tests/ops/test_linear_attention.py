"""Linear attention: a sequence against its formula in NumPy, its steps, and where documents and padding are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import quick

from txjax.ops.recurrence import LinearState, linear_attention, linear_attention_step

B, N, K, T, H, V = 2, 4, 2, 11, 3, 5
random = np.random.default_rng(0)
q, k, v = (
    jnp.asarray(2 * random.standard_normal(shape), jnp.float32) for shape in ((B, N, T, H), (B, K, T, H), (B, K, T, V))
)
EMPTY = LinearState(jnp.zeros((B, K, H, V)), jnp.zeros((B, K, H)))


def run(initial: LinearState = EMPTY, rows: slice = slice(None), part: slice = slice(None), **how: Any) -> Any:
    chosen = [x[rows, :, part] for x in (q, k, v)]
    return quick(lambda initial: linear_attention(*chosen, initial, **{"chunk": 4, **how}))(initial)


def plain(segments: np.ndarray) -> np.ndarray:
    """sum_s f(q) f(k_s) v_s / sum_s f(q) f(k_s), one query after the other; padding gives zeros."""

    def feature(x: np.ndarray) -> np.ndarray:
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    wide = [np.asarray(x, np.float64) for x in (q, k, v)]
    out = np.zeros((B, N, T, V))
    for b, n, t in np.ndindex(B, N, T):
        if segments[b, t]:
            seen = (np.arange(T) <= t) & (segments[b] == segments[b, t])
            weights = feature(wide[1][b, n // (N // K), seen]) @ feature(wide[0][b, n, t])
            out[b, n, t] = weights @ wide[2][b, n // (N // K), seen] / weights.sum()
    return out


SEGMENTS = {
    "one document": np.ones((B, T), int),
    "packed": np.array([[1] * 3 + [2] * 1 + [3] * 7, [1] * 8 + [2] * 3]),
    "padded": np.array([[1] * 2 + [0] * 9, [1] * 9 + [0] * 2]),
    "padding between": np.array([[1] * 4 + [0] * 3 + [2] * 4, [0] * 2 + [1] * 7 + [0] * 2]),
}


@pytest.mark.parametrize("chunk", [1, 4, 64])
@pytest.mark.parametrize("segments", SEGMENTS.values(), ids=SEGMENTS.keys())
def test_it_is_its_formula_whatever_the_chunk(segments: np.ndarray, chunk: int):
    y, _ = run(chunk=chunk, segments_BT=jnp.asarray(segments))
    np.testing.assert_allclose(y, plain(segments), atol=1e-5)
    if (segments == 1).all():
        np.testing.assert_allclose(run(chunk=chunk)[0], y, atol=1e-6)


def test_a_sequence_is_its_steps():
    state, found = EMPTY, []
    for t in range(T):
        y, state = linear_attention_step(state, q[:, :, t], k[:, :, t], v[:, :, t])
        found.append(y)
    y, last = run()
    np.testing.assert_allclose(y, jnp.stack(found, 2), atol=1e-5)
    for got, want in zip(last, state, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("cut", [1, 4, 6])
def test_it_goes_on_from_the_state_of_its_first_part(cut: int):
    first, state = run(part=slice(cut))
    rest, last = run(state, part=slice(cut, None))
    whole, want = run()
    np.testing.assert_allclose(jnp.concatenate([first, rest], 2), whole, atol=1e-5)
    np.testing.assert_allclose(last.values, want.values, rtol=1e-4, atol=1e-4)


@pytest.mark.bug("jax-ml/jax#15169")
def test_the_last_state_of_a_padded_row_is_that_of_its_last_token():
    _, last = run(segments_BT=jnp.asarray(SEGMENTS["padded"]))
    for row, length in ((0, 2), (1, 9)):
        empty = LinearState(EMPTY.values[:1], EMPTY.keys[:1])
        _, alone = run(empty, rows=slice(row, row + 1), part=slice(length))
        np.testing.assert_allclose(last.values[row], alone.values[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(last.keys[row], alone.keys[0], rtol=1e-5)


def test_only_a_rows_first_document_goes_on_from_the_initial_state():
    _, state = run()
    packed = jnp.asarray(SEGMENTS["packed"])
    fresh, going_on = run(segments_BT=packed)[0], run(state, segments_BT=packed)[0]
    first = np.asarray(packed) == 1
    assert np.abs(np.asarray(going_on - fresh)).max((1, 3))[first].min() > 1e-3
    np.testing.assert_array_equal(np.moveaxis(np.asarray(going_on), 1, 2)[~first], np.moveaxis(fresh, 1, 2)[~first])


def test_gradients_are_those_of_the_steps():
    def by_steps(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        def body(state: LinearState, now: Any) -> Any:
            y, state = linear_attention_step(state, *now)
            return state, y

        _, y = jax.lax.scan(body, EMPTY, tuple(jnp.moveaxis(x, 2, 0) for x in (q, k, v)))
        return (jnp.moveaxis(y, 0, 2) ** 2).sum()

    def at_once(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return (linear_attention(q, k, v, EMPTY, chunk=4)[0] ** 2).sum()

    for got, want in zip(*(quick(jax.grad(f, (0, 1, 2)))(q, k, v) for f in (at_once, by_steps)), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-4)


def test_states_stay_float32_where_the_input_is_narrow():
    y, last = linear_attention(*(x.astype(jnp.bfloat16) for x in (q, k, v)), EMPTY, chunk=4)
    assert y.dtype == jnp.bfloat16 and {x.dtype for x in last} == {jnp.dtype("float32")}
