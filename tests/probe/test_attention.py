"""Probes of attention against closed forms: what even, one-hot and random weights must give."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import softmax

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Layer, Model
from txjax.models import Decoder
from txjax.nn.initialisations import FanIn
from txjax.nn.mixers.none import NoMixer
from txjax.ops.positions import NoPosition

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> jax.Array:
    return jnp.asarray(RANDOM.standard_normal(shape), jnp.float32)


def test_even_weights_and_weights_on_one_key_are_the_two_ends():
    even, one = jnp.full((3, 8), 1 / 8), jnp.eye(8)[:3]
    np.testing.assert_allclose(probe.saturation(even), (1 / 8, math.log(8), 7 / 8), rtol=1e-6)
    np.testing.assert_array_equal(probe.saturation(one), (1, 0, 0))
    np.testing.assert_array_equal(probe.entropy(jnp.zeros((2, 4))), 0)  # no key is seen


def test_the_slope_is_the_trace_of_the_softmaxs_jacobian():
    s = normal(8)
    p = jax.nn.softmax(s)
    trace = jnp.trace(jax.jacobian(jax.nn.softmax)(s))
    np.testing.assert_allclose(probe.saturation(p[None]).slope, trace, rtol=1e-5)
    assert np.isfinite(jax.grad(lambda w: probe.entropy(w).sum())(jnp.eye(4))).all()


def test_scores_of_grouped_heads_are_those_of_repeated_keys():
    q, k = normal(2, 4, 5, 8), normal(2, 2, 6, 8)
    want = np.einsum("bnth,bnsh->bnts", q, np.repeat(k, 2, axis=1))
    np.testing.assert_allclose(probe.scores(q, k), want, atol=1e-5)


@pytest.mark.claim("C02")
def test_without_the_scale_the_softmax_saturates_as_heads_grow_and_with_it_never():
    """64 keys; over widths of 16 to 1024, without 1/sqrt(d) the median slope falls a thousandfold."""
    found = {}
    for width in (16, 128, 1024):
        q, k = normal(1, 1, 256, width), normal(1, 1, 64, width)
        np.testing.assert_allclose(probe.score_variance(q, k), width, rtol=0.1)
        s = np.asarray(probe.scores(q, k), np.float64)
        found[width] = [probe.saturation(jnp.asarray(softmax(s * scale))) for scale in (1.0, width**-0.5)]
    unscaled, scaled = ([found[width][i] for width in found] for i in (0, 1))
    assert [p.largest for p in unscaled] == sorted(p.largest for p in unscaled) and unscaled[-1].largest > 0.9
    assert unscaled[0].slope > 0.3 and unscaled[-1].slope < 0.01
    for p in scaled:
        assert p.largest < 0.15 and p.entropy > 3.5 and p.slope > 0.95


MODEL = Model(
    width=64,
    num_layers=3,
    vocab_size=32,
    context=8,
    attention=Attention(num_heads=1),
    position=NoPosition(),
    init=FanIn(),
)


def test_captured_queries_and_keys_have_the_variance_of_their_law():
    """Normed inputs have variance 1, N(0, 1/fan_in) keeps it, and q k then varies by d_k."""
    model = Decoder(replace(MODEL, num_layers=1))
    batch = Batch(tokens=jnp.arange(32).reshape(4, 8))
    tree = model.apply(model.init(jax.random.key(0)), batch, capture=("queries", "keys"), unembed=False).captured
    (q,), (k,) = probe.captured(tree, "queries"), probe.captured(tree, "keys")
    np.testing.assert_allclose(q.var(), 1, rtol=0.2)
    np.testing.assert_allclose(probe.score_variance(q, k), 64, rtol=0.4)


def test_maps_come_in_the_order_of_the_layers_those_without_attention_left_out():
    model = replace(MODEL, num_layers=5, first_layers=(Layer(),), pattern=(Layer(mixer=NoMixer()), Layer()))
    decoder, batch = Decoder(model), Batch(tokens=jnp.arange(16).reshape(2, 8))
    params = decoder.init(jax.random.key(1))
    maps = probe.attention_maps(decoder, params, batch)
    assert maps.shape == (3, 2, 1, 8, 8)
    tree = decoder.apply(params, batch, capture=("attention_weights",)).captured
    inner = tree["layers"]["block_1"]["attention"]["attention_weights"][0]
    first = tree["first_0"]["attention"]["attention_weights"][0]
    np.testing.assert_allclose(maps, jnp.stack([first, *inner]), atol=1e-6)
