"""Which keys a query may see: each mask against its sentence, and the ways in which masks go wrong without a word."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import quick

from txjax.ops import Causal, Padding, Prefix, SameSegment, Window, attention
from txjax.ops.attention import IMPLEMENTATIONS
from txjax.ops.masks import Mask, as_bias, as_mask

CPU = [name for name in IMPLEMENTATIONS if name != "cudnn"]
LENGTH = 6
SEGMENTS = np.array([[1, 1, 1, 2, 2, 0], [1, 2, 2, 3, 0, 0]], np.int32)
REAL = SEGMENTS > 0
PREFIXES = np.array([2, 4], np.int32)

# each mask, and what it says of query i and key j in row b
MEANING = {
    "causal": (Causal(), lambda b, i, j: j <= i),
    "window": (Window(3), lambda b, i, j: abs(i - j) < 3),
    "padding": (Padding(jnp.asarray(REAL)), lambda b, i, j: REAL[b, j]),
    "segments": (SameSegment(jnp.asarray(SEGMENTS)), lambda b, i, j: SEGMENTS[b, i] == SEGMENTS[b, j]),
    "prefix": (Prefix(jnp.asarray(PREFIXES)), lambda b, i, j: j < PREFIXES[b]),
}
MEANING |= {
    "and": (Causal() & MEANING["segments"][0], lambda b, i, j: j <= i and SEGMENTS[b, i] == SEGMENTS[b, j]),
    "or": (Causal() | MEANING["prefix"][0], lambda b, i, j: j <= i or j < PREFIXES[b]),
    "nested": (
        (Causal() | MEANING["prefix"][0]) & Window(2) & MEANING["padding"][0],
        lambda b, i, j: (j <= i or j < PREFIXES[b]) and abs(i - j) < 2 and REAL[b, j],
    ),
}


def dense(meaning) -> np.ndarray:
    table = [[[[bool(meaning(b, i, j)) for j in range(LENGTH)] for i in range(LENGTH)]] for b in range(2)]
    return np.array(table)


@pytest.mark.parametrize("name", MEANING)
def test_a_mask_allows_what_it_says_whole_or_in_blocks(name: str):
    mask, meaning = MEANING[name]
    want = dense(meaning)
    np.testing.assert_array_equal(np.broadcast_to(mask.dense(LENGTH, LENGTH), want.shape), want)
    queries, keys = jnp.array([4, 1]), jnp.array([5, 0, 3])
    block = np.broadcast_to(mask(queries[None], keys), (2, 1, 2, 3))
    np.testing.assert_array_equal(block, want[:, :, queries][..., keys])
    per_row = jnp.array([[4, 1], [0, 2]])  # rows of a batch at different places, as in decoding
    block = np.broadcast_to(mask(per_row, keys), (2, 1, 2, 3))
    np.testing.assert_array_equal(block, np.stack([want[b][:, per_row[b]][..., keys] for b in range(2)]))


def test_masks_are_pytrees_whose_window_is_static():
    mask = Causal() & Window(3) & Padding(jnp.asarray(REAL))
    assert len(jax.tree.leaves(mask)) == 1
    again = jax.jit(lambda m: m.dense(LENGTH, LENGTH))(mask)
    np.testing.assert_array_equal(again, mask.dense(LENGTH, LENGTH))


@pytest.mark.bug("huggingface/transformers#39408", "apple/axlearn#1009", "ml-explore/mlx-lm#390")
@pytest.mark.bug("AI-Hypercomputer/maxtext#4289")
@pytest.mark.parametrize("implementation", CPU)
def test_a_window_holds_itself_and_no_more_than_its_size(implementation: str):
    length, size = 10, 4
    visible = weights_of(Causal() & Window(size), length, length, implementation) > 0
    np.testing.assert_array_equal(visible.sum(-1), np.minimum(np.arange(length) + 1, size))


@pytest.mark.bug("huggingface/transformers#41228", "huggingface/transformers#41184")
@pytest.mark.parametrize("implementation", CPU)
def test_a_window_counts_from_the_query_when_keys_outnumber_queries(implementation: str):
    visible = weights_of(Causal() & Window(4), 2, 11, implementation) > 0
    assert [list(np.flatnonzero(row)) for row in visible] == [[6, 7, 8, 9], [7, 8, 9, 10]]


def weights_of(mask: Mask, queries: int, keys: int, implementation: str) -> np.ndarray:
    """The weights of any implementation: with the unit vectors as values, they are its output."""
    random = np.random.default_rng(0)
    q, k = (jnp.asarray(random.standard_normal((1, 1, n, keys)), jnp.float32) for n in (queries, keys))
    how: Any = {"mask": mask, "implementation": implementation, "block_size": 3}
    return np.asarray(
        quick(lambda q, k, v: attention(q, k, v, scale=0.3, **how)[0])(q, k, jnp.eye(keys)[None, None])[0, 0]
    )


@pytest.mark.bug("pytorch/pytorch#92554")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.int32])
def test_numbers_are_no_mask(dtype):
    zeros_and_ones = jnp.tril(jnp.ones((1, 1, LENGTH, LENGTH), dtype))
    with pytest.raises(TypeError, match="booleans"):
        as_mask(zeros_and_ones)
    x = jnp.ones((1, 1, LENGTH, 4))
    with pytest.raises(TypeError):
        attention(x, x, x, scale=1.0, mask=zeros_and_ones)
    np.testing.assert_array_equal(as_mask(zeros_and_ones != 0).dense(LENGTH, LENGTH), Causal().dense(LENGTH, LENGTH))


def test_a_mask_of_two_axes_is_refused():
    with pytest.raises(TypeError, match="batch, heads, queries, keys"):
        as_mask(jnp.ones((LENGTH, LENGTH), bool))


@pytest.mark.parametrize("dtype", [jnp.bool_, jnp.int32])
def test_a_bias_is_no_mask(dtype):
    with pytest.raises(TypeError, match="floats"):
        as_bias(jnp.ones((1, LENGTH, LENGTH), dtype))


@pytest.mark.bug("huggingface/transformers#46634")
def test_a_padding_mask_of_ones_leaves_segments_apart():
    segments = SameSegment(jnp.asarray(SEGMENTS))
    both = Causal() & segments & Padding(jnp.ones(SEGMENTS.shape, bool))
    np.testing.assert_array_equal(both.dense(LENGTH, LENGTH), (Causal() & segments).dense(LENGTH, LENGTH))
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 1, LENGTH, 4)).astype(np.float32)

    def second_document(v: jax.Array) -> jax.Array:
        out, _ = attention(jnp.asarray(q), jnp.asarray(k), v, scale=0.5, mask=both)
        return (out[0, :, 3:5] ** 2).sum()

    leak = np.abs(quick(jax.grad(second_document))(jnp.asarray(v))[0]).sum((0, 2))
    assert (leak[[0, 1, 2, 5]] == 0).all() and (leak[3:5] > 0).all()
