"""The linear map against einsum in float64: values, and the gradients that are written by hand."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import quick

from txjax.ops import linear

# x, w, how many axes are summed, and einsum's spelling; both orders of wide and narrow
SHAPES = [
    ((2, 5, 3), (3, 7), 1, "abi,io->abo"),
    ((2, 5, 7), (7, 3), 1, "abi,io->abo"),
    ((4,), (4, 4), 1, "i,io->o"),
    ((2, 5, 4), (4, 3, 2), 1, "abi,inh->abnh"),
    ((2, 5, 3, 2), (3, 2, 4), 2, "abnh,nho->abo"),
]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def draw(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize(("x_shape", "w_shape", "contract", "spelling"), SHAPES)
def test_values_and_gradients_are_einsums(x_shape: Any, w_shape: Any, contract: int, spelling: str):
    x, w, b = map(jnp.asarray, draw(x_shape, w_shape, w_shape[contract:]))

    def all_of_it(f: Any) -> Any:
        def run(x: jax.Array, w: jax.Array, b: jax.Array) -> Any:
            y, back = jax.vjp(f, x, w, b)
            return y, *back(jnp.cos(y))

        return quick(run)(x, w, b)

    ours = all_of_it(lambda x, w, b: linear(x, w, b, contract=contract))
    einsum = all_of_it(lambda x, w, b: jnp.einsum(spelling, x, w) + b)
    assert ours[0].dtype == jnp.float64
    for got, expected in zip(ours, einsum, strict=True):
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("narrow_first", [True, False])
def test_gradients_under_vmap(batched: tuple[Any, Any], narrow_first: bool):
    i, o = (3, 7) if narrow_first else (7, 3)
    x, w = draw((4, 2, 5, i), (4, i, o))
    x, w = (a if axis == 0 else a[0] for a, axis in zip((x, w), batched, strict=True))

    def gradients(f: Any) -> Any:
        each = jax.grad(lambda x, w: (f(x, w) ** 3).sum(), (0, 1))
        return quick(jax.vmap(each, in_axes=batched))(x, w)

    got = gradients(linear)
    want = gradients(lambda x, w: jnp.einsum("abi,io->abo", x, w))
    for one, other in zip(got, want, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)


def test_it_computes_in_the_inputs_type_and_gives_gradients_in_the_weights():
    x, w = (jnp.asarray(a, jnp.float32) for a in draw((5, 3), (3, 2)))
    half = x.astype(jnp.bfloat16)
    y, back = jax.vjp(linear, half, w)
    assert y.dtype == jnp.bfloat16
    dx, dw = back(jnp.ones_like(y))
    assert (dx.dtype, dw.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_allclose(dw, np.tile(half.astype(jnp.float32).sum(0)[:, None], 2), rtol=2e-2)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"\(2, 3\) are not the first of w \(4, 2\)"):
        linear(jnp.ones((2, 3)), jnp.ones((4, 2)))


def test_a_precision_set_around_the_forward_pass_holds_in_the_backward_pass():
    x, w = (jnp.asarray(a) for a in draw((5, 3), (3, 2)))

    def forward(x: jax.Array, w: jax.Array) -> jax.Array:
        with jax.default_matmul_precision("highest"):
            return linear(x, w)

    text = str(jax.make_jaxpr(jax.grad(lambda x, w: forward(x, w).sum(), (0, 1)))(x, w))
    products = text.count("dot_general[")
    assert products >= 3
    assert text.count("HIGHEST") >= products
