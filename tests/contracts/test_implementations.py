"""Every implementation of attention over sequences of several of its blocks, forward and backward."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import assert_close, compiled

from txjax.ops.attention import IMPLEMENTATIONS, attention
from txjax.ops.masks import Causal, Padding, Prefix, SameSegment, Window
from txjax.schema import ConfigError

ROWS, HEADS, GROUPS, LENGTH, WIDTH = 2, 4, 2, 150, 4  # no block size divides 150
SEGMENTS = jnp.asarray(np.sort(np.random.default_rng(0).integers(0, 4, (ROWS, LENGTH))))
REAL = jnp.arange(LENGTH) < jnp.array([[LENGTH], [90]])
MASKS = {
    "all": None,
    "causal": Causal(),
    "local": Causal() & Window(70),
    "packed and padded": Causal() & SameSegment(SEGMENTS) & Padding(REAL),
    "prefix": Causal() | Prefix(jnp.array([100, 3])),
}


def values_and_gradients(implementation: str, mask: Any, *arrays: jax.Array) -> Any:
    *qkv, towards = arrays

    def total(*qkv: jax.Array) -> tuple[jax.Array, jax.Array]:
        out, _ = attention(*qkv, scale=0.5, mask=mask, implementation=implementation, block_size=64)
        return (out * towards).sum(), out

    return jax.value_and_grad(total, (0, 1, 2), has_aux=True)(*qkv)


@pytest.mark.bug("jax-ml/jax#28974", "jax-ml/jax#27184")
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_they_have_the_values_and_gradients_of_the_plain_one(mask: Any):
    shapes = [(ROWS, heads, LENGTH, WIDTH) for heads in (HEADS, GROUPS, GROUPS, HEADS)]
    arrays = [
        jnp.asarray(np.random.default_rng(i).standard_normal(shape), jnp.float32) for i, shape in enumerate(shapes)
    ]
    results = {}
    for name in IMPLEMENTATIONS:
        try:
            results[name] = compiled(partial(values_and_gradients, name, mask), *arrays)(*arrays)
        except ConfigError as refusal:
            assert f"attention.implementation={name}" in str(refusal)
    assert len(results) >= 3
    for name in results:
        assert_close(results[name], results["plain"], 1e-5)
