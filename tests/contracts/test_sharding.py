"""What sharding keeps, whatever the variant: over eight CPU devices, and lowered for devices that are not there."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from harness import BATCH, TOKENS, TOLERANCE, assert_close, compiled, decoder, gradient, logits, parameters, primitives
from variants import LAYOUTS, VARIANTS, Variant

from txjax.batch import Batch
from txjax.config import Config, Mesh, Model, Optim, Train
from txjax.models.costs import training_inputs
from txjax.parallel import Layout, abstract_layout, make_layout
from txjax.schema import ConfigError
from txjax.train.optimizers import SGD
from txjax.train.state import State, hyper
from txjax.train.step import make_train_step

pytestmark = pytest.mark.long
MESH = Mesh(data=2, fsdp=2, tensor=2)

every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str, scope="module")
every_function = pytest.mark.parametrize("variant", [v for v in VARIANTS if v.computes_anew], ids=str, scope="module")
every_layout = pytest.mark.parametrize("variant", LAYOUTS, ids=str, scope="module")


def config_of(model: Model) -> Config:
    bare = Optim(learning_rate=1.0, optimizer=SGD(), weight_decay=0.0, clip=None)  # the update is the gradient
    return Config(model=model, optim=bare, train=Train(batch_size=8, steps=10), mesh=MESH)


def fitted(model: Model, make: Any, *arguments: Any) -> tuple[Layout, Any]:
    """A layout and the places of the model's parameters, with the advice taken that an error gives."""
    layout = make(MESH, *arguments)
    try:
        return layout, layout.parameters(decoder(model).axes(), decoder(model).shapes())
    except ConfigError as error:
        assert "map kv_heads to none" in str(error)
        rules = tuple((name, None if name == "kv_heads" else over) for name, over in MESH.parameter_rules)
        layout = make(replace(MESH, parameter_rules=rules), *arguments)
        return layout, layout.parameters(decoder(model).axes(), decoder(model).shapes())


@every_function
def test_sharded_over_eight_devices_it_has_the_same_logits(variant: Variant):
    model = variant.model
    layout, places = fitted(model, make_layout)

    def forward(params: Any, batch: Batch) -> jax.Array:
        return decoder(model).apply(params, batch).logits

    with layout.scope():
        arguments = jax.device_put((parameters(model), BATCH), (places, layout.batch()))
        program = compiled(forward, *arguments)
        got = program(*arguments)
    assert "all-reduce" in program.as_text()  # the work is shared: a product's parts are summed over devices
    assert_close(got, logits(model), TOLERANCE[model.dtype])


@every_variant
def test_the_train_step_lowers_for_tpu_on_a_mesh_of_no_devices(variant: Variant):
    model, config = decoder(variant.model), config_of(variant.model)
    layout, places = fitted(variant.model, abstract_layout, 8)

    everywhere = layout.replicated()

    def shaped(leaf: Any, place: Any = everywhere) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)

    zero, key = jnp.zeros((), jnp.int32), jax.random.key(0)
    rest = jax.tree.map(shaped, State(zero, None, optax.EmptyState(), key, zero, zero))
    state = replace(rest, params=jax.tree.map(shaped, model.shapes(), places))
    batch = jax.tree.map(lambda leaf: shaped(leaf, layout.batch()), training_inputs(model, *TOKENS.shape))
    with layout.scope():
        traced = jax.jit(make_train_step(model, config)).trace(state, batch, jax.tree.map(shaped, hyper(config, model)))
        text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert "stablehlo.while" in text or variant.model.periods == 1 or variant.model.unroll != 1
    used = primitives(traced.jaxpr.jaxpr)
    assert used.count("sharding_constraint") > 2
    assert ("random_bits" in used) == (variant.model.dropout > 0)  # off, dropout costs nothing


@every_layout
def test_a_sharded_train_step_moves_the_weights_by_the_gradient_of_one_device(variant: Variant):
    model = decoder(variant.model)
    config = config_of(variant.model)
    layout, places = fitted(variant.model, make_layout)
    zero = jnp.zeros((), jnp.int32)
    state = State(zero, parameters(variant.model), optax.EmptyState(), jax.random.key(0), zero, zero)
    step = make_train_step(model, config)
    with layout.scope():
        everywhere = layout.replicated()
        spread = replace(jax.device_put(state, everywhere), params=jax.device_put(state.params, places))
        arguments = spread, jax.device_put(BATCH, layout.batch()), jax.device_put(hyper(config, model), everywhere)
        program = compiled(step, *arguments)
        after, metrics = program(*arguments)
    assert not {"collective-permute", "all-to-all"} & set(re.findall(r"[a-z-]+(?=\()", program.as_text()))  # rows stay
    moved = jax.tree.map(lambda old, new: np.asarray(old) - np.asarray(new), state.params, after.params)
    assert_close((metrics.loss, moved), gradient(variant.model), 1e-5)
