"""Layer norm and RMS norm: values, the hand-written gradients, and rows of zeros in half precision."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import layer_norm as layer_norm_by_hand
from plain_numpy import quick

from txjax.ops import layer_norm, rms_norm

D = 12
random = np.random.default_rng(0)
x, dy = (jnp.asarray(3 * random.standard_normal((2, 5, D)) + 1, jnp.float32) for _ in range(2))
gain, bias = (jnp.asarray(random.standard_normal(D), jnp.float32) for _ in range(2))


def plain_layer_norm(x: jax.Array, gain: jax.Array, bias: jax.Array | None = None, *, eps: float) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    y = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + eps) * gain
    return y if bias is None else y + bias


def plain_rms_norm(x: jax.Array, gain: jax.Array, *, eps: float) -> jax.Array:
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + eps) * gain


def unbiased(x: jax.Array, gain: jax.Array, *, eps: float) -> jax.Array:
    return layer_norm(x, gain, None, eps=eps)


CASES = {
    "layer": (layer_norm, plain_layer_norm, (x, gain, bias)),
    "layer without bias": (unbiased, plain_layer_norm, (x, gain)),
    "rms": (rms_norm, plain_rms_norm, (x, gain)),
}


@pytest.mark.parametrize("eps", [1e-5, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_plain_formula(name: str, eps: float):
    ours, plain, arguments = CASES[name]

    @quick
    def both(dy: jax.Array, *arguments: jax.Array) -> Any:
        results = []
        for norm in (ours, plain):
            y, back = jax.vjp(lambda *a, norm=norm: norm(*a, eps=eps), *arguments)
            results.append((y, back(dy)))
        return results

    (got, gradients), (want, plain_gradients) = both(dy, *arguments)
    np.testing.assert_allclose(got, want, atol=5e-6)
    for one, other in zip(gradients, plain_gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * float(jnp.abs(other).max()))


@pytest.mark.parametrize("name", CASES)
def test_gradients_under_vmap_over_inputs_and_parameters(name: str):
    ours, plain, arguments = CASES[name]
    stacked = [jnp.stack([a, 2 * a + 1, -a]) for a in arguments]

    def gradients(f: Any) -> Any:
        each = jax.grad(lambda *a: (f(*a, eps=1e-3) * dy).sum(), tuple(range(len(stacked))))
        return quick(jax.vmap(each))(*stacked)

    for one, other in zip(gradients(ours), gradients(plain), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5 * float(jnp.abs(other).max()))


@pytest.mark.claim("C22")
def test_layer_norm_centres_and_scales_each_token_alone():
    y = np.asarray(layer_norm(x, jnp.ones(D), jnp.zeros(D), eps=1e-5))
    np.testing.assert_allclose(y, layer_norm_by_hand(np.asarray(x, np.float64), 1, 0), atol=2e-6)
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(y.var(-1), 1, atol=1e-4)
    np.testing.assert_allclose(layer_norm(x[1:, 2:], gain, bias, eps=1e-5), layer_norm(x, gain, bias, eps=1e-5)[1:, 2:])


@pytest.mark.claim("C22", "C23")
def test_what_each_norm_does_not_see():
    eps = 1e-7
    np.testing.assert_allclose(
        layer_norm(7 * x + 3, gain, bias, eps=eps), layer_norm(x, gain, bias, eps=eps), atol=1e-5
    )
    np.testing.assert_allclose(rms_norm(7 * x, gain, eps=eps), rms_norm(x, gain, eps=eps), atol=1e-5)
    assert np.abs(rms_norm(x + 3, gain, eps=eps) - rms_norm(x, gain, eps=eps)).max() > 0.1
    centred = x - x.mean(-1, keepdims=True)
    np.testing.assert_allclose(rms_norm(centred, gain, eps=eps), layer_norm(x, gain, None, eps=eps), atol=1e-5)
    np.testing.assert_allclose(layer_norm(jnp.full((3, D), 5.0), gain, bias, eps=eps), np.tile(bias, (3, 1)))


@pytest.mark.bug("deepspeedai/DeepSpeed#581", "tensorflow/tensorflow#24979")
@pytest.mark.bug("jax-ml/jax#17070", "jax-ml/jax#3058")
@pytest.mark.parametrize(("dtype", "eps"), [(jnp.bfloat16, 1e-12), (jnp.bfloat16, 1e-5), (jnp.float16, 1e-5)])
@pytest.mark.parametrize("value", [0.0, 300.0])
def test_a_constant_row_in_half_precision_gives_the_bias_and_finite_gradients(dtype: Any, eps: float, value: float):
    row = jnp.full((2, D), value, dtype)
    for norm, parameters in ((layer_norm, (gain, bias)), (rms_norm, (gain,))):

        @partial(quick, static_argnames="norm")
        def run(*arguments: jax.Array, norm: Any = norm) -> Any:
            y, back = jax.vjp(lambda *a: norm(*a, eps=eps), *arguments)
            return y, back(jnp.ones_like(y))

        y, gradients = run(row, *parameters)
        assert y.dtype == dtype
        if norm is layer_norm or value == 0.0:
            want = bias if norm is layer_norm else jnp.zeros(D)
            np.testing.assert_allclose(y.astype(jnp.float32), np.tile(want, (2, 1)), rtol=1e-2)
        assert all(np.isfinite(g.astype(jnp.float32)).all() for g in gradients)


def test_statistics_are_float32_in_bfloat16():
    wide = jnp.asarray(
        np.random.default_rng(1).standard_normal((1, 4096)) + 100, jnp.bfloat16
    )  # sums in bfloat16 stall
    want = layer_norm_by_hand(np.asarray(wide, np.float64), 1, 0)
    got = layer_norm(wide, jnp.ones(4096), jnp.zeros(4096), eps=1e-5).astype(jnp.float32)
    np.testing.assert_allclose(got, want, atol=2e-2)
