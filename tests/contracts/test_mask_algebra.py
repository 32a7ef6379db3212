"""Masks, alone and combined, against the dense oracle: one Python comparison for each query and key."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.ops import masks
from txjax.ops.masks import And, Causal, Explicit, Filled, Mask, Or, Padding, Prefix, SameSegment, Window

ROWS, KEYS = 2, 6
Rule = Callable[[int, int, int], bool]  # row of the batch, index of the query, index of the key


@dataclass(frozen=True)
class Case:
    """A mask and what it means."""

    mask: Mask
    allows: Rule
    name: str

    def __repr__(self) -> str:
        return self.name


def window(size: int) -> Case:
    return Case(Window(size), lambda b, i, j: abs(i - j) < size, f"Window({size})")


def padding(real: list[list[bool]]) -> Case:
    return Case(Padding(jnp.array(real)), lambda b, i, j: real[b][j], f"Padding({real})")


def segment(numbers: list[list[int]]) -> Case:
    return Case(SameSegment(jnp.array(numbers)), lambda b, i, j: numbers[b][i] == numbers[b][j], f"Segment({numbers})")


def prefix(lengths: list[int]) -> Case:
    return Case(Prefix(jnp.array(lengths)), lambda b, i, j: j < lengths[b], f"Prefix({lengths})")


def explicit(allowed: list[list[bool]]) -> Case:
    return Case(Explicit(jnp.array(allowed)[None, None]), lambda b, i, j: allowed[i][j], f"Explicit({allowed})")


def rows(of: st.SearchStrategy, lines: int = ROWS) -> st.SearchStrategy:
    return st.lists(st.lists(of, min_size=KEYS, max_size=KEYS), min_size=lines, max_size=lines)


LEAVES: dict[type[Mask], st.SearchStrategy] = {
    Causal: st.just(Case(Causal(), lambda b, i, j: j <= i, "Causal")),
    Filled: st.just(Case(Filled(), lambda b, i, j: j >= 0, "Filled")),
    Window: st.integers(1, KEYS + 1).map(window),
    Padding: rows(st.booleans()).map(padding),
    SameSegment: rows(st.integers(0, 2)).map(segment),
    Prefix: st.lists(st.integers(0, KEYS), min_size=ROWS, max_size=ROWS).map(prefix),
    Explicit: rows(st.booleans(), KEYS).map(explicit),
}


def combined(pair: tuple[Case, Case, bool]) -> Case:
    left, right, both = pair
    if both:
        return Case(left.mask & right.mask, lambda *at: left.allows(*at) and right.allows(*at), f"({left} & {right})")
    return Case(left.mask | right.mask, lambda *at: left.allows(*at) or right.allows(*at), f"({left} | {right})")


def expressions() -> st.SearchStrategy:
    leaf = st.one_of(*LEAVES.values())
    return st.recursive(leaf, lambda inner: st.tuples(inner, inner, st.booleans()).map(combined), max_leaves=5)


def oracle(rule: Rule, queries: range) -> np.ndarray:
    grid = itertools.product(range(ROWS), queries, range(KEYS))
    return np.array([rule(*at) for at in grid]).reshape(ROWS, 1, len(queries), KEYS)


def test_every_mask_has_an_oracle():
    defined = {m for m in vars(masks).values() if isinstance(m, type) and issubclass(m, Mask)}
    assert defined - {Mask, And, Or} == LEAVES.keys()


@settings(max_examples=30, derandomize=True)
@given(case=expressions(), queries=st.integers(1, KEYS))
def test_a_mask_allows_what_it_means(case: Case, queries: int):
    """Of the last queries against all keys, as decoding asks, too."""
    got = np.broadcast_to(case.mask.dense(queries, KEYS), (ROWS, 1, queries, KEYS))
    assert np.array_equal(got, oracle(case.allows, range(KEYS - queries, KEYS)))


@settings(max_examples=30, derandomize=True)
@given(case=expressions(), queries=st.tuples(*[st.integers(0, KEYS - 1)] * 2), keys=st.permutations(range(KEYS)))
def test_a_block_is_a_cut_of_the_dense_mask(case: Case, queries: tuple[int, int], keys: list[int]):
    """Any queries, other ones in each row, against any keys: how blocks and caches ask."""
    if isinstance(case.mask, Explicit) or "Explicit" in case.name:
        queries = (queries[0], queries[0])  # an array has no rows of its own for each row of the batch
    got = case.mask(jnp.array(queries)[:, None], jnp.array(keys[:4]))
    whole = oracle(case.allows, range(KEYS))
    want = np.stack([whole[b, :, [i]][:, 0][:, keys[:4]][None] for b, i in enumerate(queries)])
    assert np.array_equal(np.broadcast_to(got, want.shape), want)
