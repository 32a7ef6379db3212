"""Probes of gradients against closed forms and against differences of the loss."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Layer, Model, NoFeedForward, NoNorm, NoPosition
from txjax.models import Decoder, presets
from txjax.nn.initialisations import FanIn
from txjax.ops.losses import cross_entropy

MODEL = Model(
    width=8,
    num_layers=4,
    vocab_size=9,
    context=6,
    attention=Attention(num_heads=2),
    init=FanIn(),
    position=NoPosition(),
)
BATCH = Batch(tokens=jnp.arange(6)[None], targets=jnp.array([[3, 1, 4, 1, 5, 2]]))


def test_gradients_are_differences_of_the_mean_loss_over_tokens_that_count():
    model = Decoder(MODEL)
    params = model.init(jax.random.key(0))
    batch = BATCH.replace(weights=jnp.array([[1.0, 1, 0, 1, 0, 1]]))

    def loss(scale: float) -> float:
        moved = jax.tree.map(lambda p, g: p + scale * g, params, gradients)
        each = cross_entropy(model.apply(moved, batch).logits, batch.targets)
        return float((each * batch.weights).sum() / 4)

    gradients = probe.weight_gradients(model, params, batch)
    squared = sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(gradients))
    step = 1e-3 / squared**0.5
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(squared, rel=0.02)


def test_norms_are_by_layer_in_the_order_of_the_stack():
    model = Decoder(replace(MODEL, first_layers=(Layer(),), num_layers=5, pattern=(Layer(), Layer())))
    tree = jax.tree.map(jnp.zeros_like, model.init(jax.random.key(0)))
    tree["first_0"]["dense"]["in"]["w"] += 1.0
    for block, values in (("block_0", [2.0, 4.0]), ("block_1", [3.0, 5.0])):
        tree["layers"][block]["dense"]["in"]["w"] += jnp.array(values)[:, None, None]
    size = (8 * 32) ** 0.5
    np.testing.assert_allclose(probe.gradient_norms(tree) / size, [1, 2, 3, 4, 5], rtol=1e-6)
    np.testing.assert_array_equal(probe.gradient_norms(tree, lambda layer: layer["attention"]), 0)


def test_an_attention_of_even_weights_reaches_every_distance_alike():
    """Queries of 0 see all T tokens alike: d h / d x_t = W_V W_O / T for each t."""
    bare = {"feedforward": NoFeedForward(), "norm": NoNorm(), "residual": "off", "num_layers": 1}
    model = Decoder(replace(MODEL, **bare))
    params = model.init(jax.random.key(0))
    attention = params["layers"]["block_0"]["attention"]
    attention["query"]["w"] *= 0
    product = np.einsum("dnh,nhe->de", attention["value"]["w"][0], attention["out"]["w"][0])
    reach = probe.gradient_by_distance(model, params, BATCH)
    np.testing.assert_allclose(reach, np.full((1, 6), np.linalg.norm(product) / 6), rtol=1e-5)


def test_a_linear_recurrence_reaches_back_by_powers_of_its_matrix():
    """With small states tanh is the identity: d h_T / d x_t = W U^(T - t)."""
    model = Decoder(presets.rnn(width=8, num_layers=1, vocab_size=9, context=6))
    params = model.init(jax.random.key(0))
    params["embedding"]["w"] *= 1e-4
    layer = params["layers"]["block_0"]["rnn"]
    w, u = layer["input"]["w"][0, :, 0], layer["recurrent"]["w"][0, :, 0]
    want = [np.linalg.norm(np.asarray(w) @ np.linalg.matrix_power(u, 5 - t)) for t in range(6)]
    np.testing.assert_allclose(probe.gradient_by_distance(model, params, BATCH)[0], want, rtol=1e-4)


def test_a_token_that_occurs_twice_is_refused():
    model = Decoder(MODEL)
    with pytest.raises(ValueError, match="occurs twice"):
        probe.gradient_by_distance(model, model.shapes(), Batch(tokens=jnp.array([[1, 2, 1]])))
