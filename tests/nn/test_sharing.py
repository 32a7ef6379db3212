"""Periods that share their parameters are the same function as periods of their own with equal ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import probe
from txjax.batch import Batch
from txjax.config import SGD, Attention, Config, Dense, Encoder, Layer, Mixture, Model, Optim, Train
from txjax.interop import fits
from txjax.interop.table import Row, places
from txjax.models import Decoder, costs
from txjax.nn.parameters import layer_numbers
from txjax.ops.norms import BatchNorm
from txjax.train.state import hyper, initial_state
from txjax.train.step import make_train_step

LENGTH, VOCAB = 6, 20
SHARED = Model(
    width=8,
    num_layers=5,
    vocab_size=VOCAB,
    context=LENGTH,
    attention=Attention(num_heads=2),
    first_layers=(Layer(),),
    pattern=(Layer(), Layer(feedforward=Dense(hidden=12))),
    sharing="periods",
    remat="none",
)
TOKENS = np.random.default_rng(0).integers(0, VOCAB, (2, LENGTH)).astype(np.int32)
BATCH = Batch(tokens=jnp.asarray(TOKENS), targets=jnp.asarray(TOKENS[:, ::-1]))


def weights(model: Model) -> Any:
    random = np.random.default_rng(1)
    shapes = Decoder(model).shapes()
    return jax.tree.map(lambda leaf: jnp.asarray(0.3 * random.standard_normal(leaf.shape), jnp.float32), shapes)


def of_own(params: Any, periods: int) -> Any:
    """The same values in each period."""
    return params | {"layers": jax.tree.map(lambda leaf: jnp.stack([leaf] * periods), params["layers"])}


def mean_loss(model: Model) -> Any:
    def loss(params: Any) -> jax.Array:
        logits = Decoder(model).apply(params, BATCH).logits
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), BATCH.targets[..., None], axis=-1).mean()

    return jax.value_and_grad(loss)


@pytest.mark.parametrize("change", [{}, {"remat": "dots"}, {"unroll": "all"}], ids=str)
def test_values_are_those_of_equal_layers_and_gradients_their_sum(change: dict[str, Any]):
    params = weights(SHARED)
    own, gradients = jax.jit(mean_loss(replace(SHARED, sharing="none")))(of_own(params, 2))
    shared, got = jax.jit(mean_loss(replace(SHARED, **change)))(params)
    np.testing.assert_allclose(shared, own, rtol=1e-6)
    want = gradients | {"layers": jax.tree.map(lambda leaf: leaf.sum(0), gradients["layers"])}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), got, want)


def test_each_layers_gradient_is_told_apart():
    model, params = Decoder(SHARED), weights(SHARED)
    by_layer = probe.weight_gradients(model, params, BATCH)
    _, own = mean_loss(replace(SHARED, sharing="none"))(of_own(params, 2))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), by_layer, own)
    assert probe.gradient_norms(by_layer).shape == (5,)
    tree = model.apply(params, BATCH, capture=("residual",)).captured
    assert len(probe.captured(tree, "residual")) == 5


def test_it_has_and_multiplies_what_it_says():
    own, shared = (Decoder(replace(SHARED, sharing=how)) for how in ("none", "periods"))
    pattern = sum(costs.count_parameters(block) for block in shared.shapes()["layers"].values())
    assert costs.count_parameters(own.shapes()) == costs.count_parameters(shared.shapes()) + pattern
    assert costs.forward_flops(own, 2, LENGTH) == costs.forward_flops(shared, 2, LENGTH)


def test_a_token_does_not_use_the_other_experts_of_one_pass():
    mixture = Mixture(num_experts=4, top_k=2, hidden=12)
    model = replace(SHARED, feedforward=mixture, pattern=(Layer(),), first_layers=(), num_layers=3)
    idle = 2 * (2 * 8 * 12 + 12 + 8)  # of the four experts that all layers have, with their biases
    assert costs.active_parameters(Decoder(model), model) == costs.count_parameters(Decoder(model).shapes()) - idle


def test_the_first_layer_of_each_place_names_its_parameters():
    """In the keys of initial values, and in the tables of others."""
    assert layer_numbers("first_0/dense/in/w", SHARED) == 0
    assert layer_numbers("layers/block_1/dense/in/w", SHARED) == 2
    pair = replace(SHARED, encoder=Encoder(num_layers=4))
    assert layer_numbers("encoder/layers/block_0/dense/in/w", pair) == 0
    assert layer_numbers("encoder/layers/block_0/dense/in/w", replace(pair, sharing="none")).tolist() == [0, 1, 2, 3]  # type: ignore[union-attr]

    lone = replace(SHARED, mixer="none", norm="none", position="none", head="tied")
    table = (
        Row("embedding/w", "E", "V D -> V D"),
        Row("layers/dense/in/w", "in.{layer}", "D F -> D F"),
        Row("layers/dense/in/b", "b.{layer}", "F -> F"),
        Row("layers/dense/out/w", "out.{layer}", "F D -> F D"),
        Row("layers/dense/out/b", "c.{layer}", "D -> D"),
    )
    names = places(table, Decoder(lone)).keys()
    assert names == {"E", *(f"{name}.{layer}" for name in ("b", "in", "out", "c") for layer in (0, 1, 2))}


@pytest.mark.parametrize("changes", [{"norm": BatchNorm()}, {"feedforward": Mixture(4, hidden=12, bias_speed=0.1)}])
def test_what_no_gradient_moves_becomes_the_mean_over_the_periods(changes: dict[str, Any]):
    """Running statistics, a router's bias: those of equal layers, averaged, after a step of training."""
    shared = replace(SHARED, pattern=(Layer(),), encoder=None, **changes)
    own, params = replace(shared, sharing="none"), weights(shared)
    key = jax.random.key(0)
    updates = [
        Decoder(model).apply(values, BATCH, key=key).updates
        for model, values in ((shared, params), (own, of_own(params, 4)))
    ]
    want = updates[1] | {"layers": jax.tree.map(lambda leaf: leaf.mean(0), updates[1]["layers"])}
    assert jax.tree.leaves(want["layers"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), updates[0], want)

    optim = Optim(learning_rate=0.1, optimizer=SGD(), weight_decay=0.0, clip=None)
    config = Config(model=shared, optim=optim, train=Train(batch_size=2, steps=10))
    state = initial_state(config, Decoder(shared), params)
    after, _ = jax.jit(make_train_step(Decoder(shared), config))(state, BATCH, hyper(config, Decoder(shared)))
    assert jax.tree.map(jnp.shape, after.params) == jax.tree.map(jnp.shape, params)


def test_a_pattern_of_equal_layers_is_another_model_where_it_is_shared():
    two = replace(SHARED, first_layers=(), pattern=(Layer(), Layer()), num_layers=4)
    one = replace(two, pattern=(Layer(),))
    assert fits.unlike(one, two)
    assert not fits.unlike(replace(one, sharing="none"), replace(two, sharing="none"))
    assert not fits.unlike(one, replace(one, feedforward=Dense(hidden=32)))
