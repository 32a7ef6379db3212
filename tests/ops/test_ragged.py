"""The ragged product in blocks: that of JAX, which multiplies every row by every matrix."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.models import costs
from txjax.ops.moe.ragged import Blocks, ragged, rows_of_a_block

I, O = 6, 10  # noqa: E741


def draw(*shape: int, seed: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


@pytest.mark.parametrize(
    "sizes",
    [(7, 0, 3), (0, 0, 1), (1, 0, 0), (40, 41, 219), (0, 300, 0), (1,) * 60, (513,)],
    ids=str,
)
def test_values_and_gradients_are_those_of_jax(sizes: tuple[int, ...]):
    """Within 2e-5: sums of up to 300 products in another order."""
    sizes_E, M = jnp.array(sizes), sum(sizes)
    x, w, towards = draw(M, I, seed=0), draw(len(sizes), I, O, seed=1), draw(M, O, seed=2)

    def total(x: jax.Array, w: jax.Array, product) -> tuple[jax.Array, jax.Array]:  # type: ignore[no-untyped-def]
        y = product(x, w, sizes_E)
        return (y * towards).sum(), y

    def both(product) -> tuple:  # type: ignore[no-untyped-def]
        return jax.jit(jax.grad(lambda x, w: total(x, w, product), (0, 1), has_aux=True))(x, w)

    for got, want in zip(*map(jax.tree.leaves, (both(ragged), both(jax.lax.ragged_dot))), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())


@given(st.lists(st.integers(0, 90), min_size=1, max_size=40).filter(any))
@settings(max_examples=60, deadline=None)
def test_each_row_has_one_place_in_a_block_of_its_group(sizes: list[int]):
    M, C = sum(sizes), rows_of_a_block(sum(sizes), len(sizes))
    with jax.disable_jit():
        blocks = Blocks(*map(np.asarray, Blocks.of(jnp.array(sizes), M)))
    assert blocks.row_PC.shape == (len(blocks.group_P), C)
    assert np.array_equal(np.sort(blocks.row_PC[blocks.real_PC]), np.arange(M))  # as many blocks as it takes
    assert np.array_equal(blocks.row_PC.ravel()[blocks.place_M], np.arange(M))
    group_PC = np.broadcast_to(blocks.group_P[:, None], blocks.row_PC.shape)
    assert np.array_equal(group_PC.ravel()[blocks.place_M], np.repeat(np.arange(len(sizes)), sizes))


def test_a_block_is_large_where_groups_are_and_a_row_where_rows_are_few():
    assert [rows_of_a_block(rows, 8) for rows in (1, 2, 64, 8192, 10**6)] == [2, 4, 16, 256, 256]
    assert rows_of_a_block(2, 256) == 1


def test_it_costs_one_product_of_its_rows_forward_and_two_more_backward():
    sizes_E = jnp.array([3, 0, 4, 1, 2])
    x, w = draw(10, I, seed=0), draw(5, I, O, seed=1)

    def total(x: jax.Array, w: jax.Array) -> jax.Array:
        return ragged(x, w, sizes_E).sum()

    forward, both = (jax.make_jaxpr(f)(x, w).jaxpr for f in (total, jax.grad(total, (0, 1))))
    one = 2 * 10 * I * O
    assert (costs.matmul_flops(forward), costs.matmul_flops(both)) == (one, 3 * one)
    assert costs.sequential_depth(forward) < 5  # no chain of blocks
