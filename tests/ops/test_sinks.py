"""Sinks in the softmax, values of their own width, and keys in an order of their own, in all forms of attention."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import attend, quick

from txjax.ops import Causal, Padding, Prefix, SameSegment, Window, attention, masked_softmax
from txjax.ops.masks import Filled
from txjax.ops.positions import Alibi
from txjax.ops.positions.relative import BucketBias
from txjax.schema import ConfigError

SINKING = ("plain", "recomputed", "blockwise")
B, N, K, T, H, W = 2, 4, 2, 7, 6, 5
random = np.random.default_rng(0)
q, k, v, dy = (
    jnp.asarray(random.standard_normal(shape), jnp.float32)
    for shape in ((B, N, T, H), (B, K, T, H), (B, K, T, W), (B, N, T, W))
)
SINKS = jnp.array([-1.0, 0.0, 0.7, 3.0])
TRIANGLE = np.tri(T, dtype=bool)


def with_a_key_of_score(sinks: Any, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Attention in NumPy over one key more, whose score is the sink's and whose value is zero."""
    longer = [np.concatenate([np.zeros((B, K, 1, x.shape[-1])), x], axis=2) for x in (k, v)]
    bias = np.concatenate([np.broadcast_to(np.asarray(sinks)[:, None, None], (N, T, 1)), np.zeros((N, T, T))], axis=2)
    seen = np.concatenate([np.ones((T, 1), bool), mask], axis=1)
    out, weights = attend(q, *longer, scale=0.4, bias=bias[None], visible=seen)
    return out, weights[..., 1:]


@pytest.mark.parametrize("implementation", SINKING)
def test_a_sink_is_a_key_without_a_value(implementation: str):
    def out(sinks: jax.Array) -> jax.Array:
        how: Any = {"implementation": implementation, "block_size": 3, "mask": Causal()}
        return attention(q, k, v, scale=0.4, sinks_N=sinks, **how)[0]

    for sinks in (SINKS, SINKS - 1e4, SINKS + 1e4):
        np.testing.assert_allclose(quick(out)(sinks), with_a_key_of_score(sinks, TRIANGLE)[0], atol=2e-6)
    _, weights = attention(q, k, v, scale=0.4, sinks_N=SINKS, mask=Causal())
    np.testing.assert_allclose(weights, with_a_key_of_score(SINKS, TRIANGLE)[1], atol=1e-6)
    assert (np.asarray(weights).sum(-1) < 1).all()


@pytest.mark.parametrize("implementation", [name for name in SINKING if name != "plain"])
def test_gradients_with_sinks_are_those_of_plain(implementation: str):
    """Rows that see nothing among them; keys and values of two widths; more than one block of each implementation."""
    length = 130
    wide = jnp.asarray(np.random.default_rng(1).standard_normal((4, 1, 4, length, 6)), jnp.float32)
    mask = Causal() & Window(9) & Padding(jnp.arange(length)[None] % 40 > 9)

    def gradients(name: str) -> Any:
        def loss(q: jax.Array, k: jax.Array, v: jax.Array, sinks: jax.Array) -> jax.Array:
            how: Any = {"implementation": name, "block_size": 32, "mask": mask}
            y, _ = attention(q, k[:, ::2], v[:, ::2, :, :5], scale=0.4, sinks_N=sinks, **how)
            return (y * wide[3, ..., :5]).sum()

        return quick(jax.grad(loss, (0, 1, 2, 3)))(*wide[:3], SINKS)

    for got, want in zip(gradients(implementation), gradients("plain"), strict=True):
        assert jnp.abs(want).max() > 0.01
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.bug("pytorch/pytorch#41508", "jax-ml/jax#17070")
def test_a_row_without_keys_gives_its_sink_nothing_to_weigh():
    def loss(scores: jax.Array, sink: jax.Array) -> jax.Array:
        return (masked_softmax(scores, jnp.array([[True, True], [False, False]]), sink) ** 2).sum()

    scores = jnp.array([[1.0, 2.0], [jnp.nan, jnp.inf]])
    weights = masked_softmax(scores, jnp.array([[True, True], [False, False]]), jnp.zeros((2, 1)))
    np.testing.assert_allclose(weights[0], np.exp([1, 2]) / (np.exp([1, 2]).sum() + 1), rtol=1e-6)
    to_scores, to_sink = jax.grad(loss, (0, 1))(scores, jnp.zeros((2, 1)))
    assert (weights[1] == 0).all() and (to_scores[1] == 0).all() and to_sink[1] == 0 and to_sink[0] < 0


@pytest.mark.parametrize("implementation", ["xla", "cudnn"])
def test_fused_forms_refuse_sinks_and_values_of_another_width(implementation: str):
    with pytest.raises(ConfigError, match=f"{implementation} has no sinks: use recomputed or blockwise"):
        attention(q, k, v, scale=1.0, sinks_N=SINKS, implementation=implementation)
    with pytest.raises(ConfigError, match=f"{implementation} needs values as wide as keys, got 5 and 6"):
        attention(q, k, v, scale=1.0, implementation=implementation)


# Keys in an order of their own

ORDERS = np.stack([np.random.default_rng(row).permutation(T) for row in range(B)])
MASKS = {
    "causal": Causal(),
    "window": Causal() & Window(3),
    "prefix": Causal() | Prefix(jnp.array([2, 5])),
    "packed": Causal() & SameSegment(jnp.array([[1] * 3 + [2] * 4, [1] * 6 + [0]])),
    "padded": Causal() & Padding(jnp.arange(T) < jnp.array([[T], [4]])),
}


@pytest.mark.bug("huggingface/transformers#41228", "T047")
@pytest.mark.parametrize("bias", [Alibi().bias(N, {}, causal=True), BucketBias(jnp.ones((8, N)) * SINKS, 6, False)])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
def test_masks_and_biases_ask_where_a_key_is_and_not_in_which_slot(mask: Any, bias: Any):
    """Keys put into another order in each row, with their true indices, give what they gave in order."""
    shuffled = [jnp.stack([x[row][:, ORDERS[row]] for row in range(B)]) for x in (k, v)]
    offset = jnp.array([4, 2])
    how: Any = {"scale": 0.4, "mask": mask, "bias": bias, "offset": offset, "sinks_N": SINKS}
    want, _ = attention(q[:, :, :2], k, v, **how)
    for implementation in ("plain", "recomputed", "blockwise"):
        more: Any = {"implementation": implementation, "block_size": 3, "key_BS": jnp.asarray(ORDERS)}
        got, _ = quick(lambda how: attention(q[:, :, :2], *shuffled, **how, **more))(how)  # noqa: B023
        np.testing.assert_allclose(got, want, atol=2e-6)


def test_a_negative_index_is_no_key():
    index = jnp.array([[0, 1, 2, 3, -1, -7, -2], [0, 1, 2, 3, 4, 5, 6]])
    got, _ = attention(q, k, v, scale=0.4, key_BS=index, offset=6)
    want, _ = attend(q, k, v, scale=0.4, visible=(np.asarray(index) >= 0)[:, None, None])
    np.testing.assert_allclose(got, want, atol=2e-6)
    assert Filled()(jnp.zeros((1, 1), int), jnp.arange(3)).shape == (1, 1, 1, 3)


def test_an_array_has_no_rows_for_keys_in_another_order():
    with pytest.raises(ValueError, match="given as an array cannot serve keys that lie in another order"):
        attention(q, k, v, scale=0.4, mask=jnp.asarray(TRIANGLE)[None, None], key_BS=jnp.asarray(ORDERS))
