"""Dropout draws by layer, site, step and micro-batch, and alike in arms that differ elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from harness import TOKENS, assert_close, compiled, parameters
from variants import BASES, put_all

from txjax.batch import Batch
from txjax.config import SGD, Config, Dense, Layer, Model, Optim, Rope, Train
from txjax.models.decoder import Decoder
from txjax.nn.context import Knobs
from txjax.nn.mixers.attention import SelfAttention
from txjax.schema import field_types
from txjax.train.state import State, hyper
from txjax.train.step import make_train_step

MODEL = replace(BASES["gpt"], dropout=0.5, remat="none")
SITES = get_args(get_args(field_types(Model)["dropout_sites"])[0])
BATCH = Batch(tokens=TOKENS[:2], targets=TOKENS[:2])
Draw = tuple[bytes, tuple[int, ...]]  # the key and the shape of one mask


@contextmanager
def draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Draw]]:
    """The masks that are drawn inside."""
    found: list[Draw] = []
    uniform = jax.random.uniform

    def spy(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        if not isinstance(key, jax.core.Tracer):  # flax's scan looks at its body once before it runs it
            found.append((np.asarray(jax.random.key_data(key)).tobytes(), tuple(shape)))
        return uniform(key, shape)

    with monkeypatch.context() as patch, jax.disable_jit():
        patch.setattr(jax.random, "uniform", spy)
        yield found


def masks(model: Model, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> list[Draw]:
    with draws(monkeypatch) as found:
        Decoder(model).apply(parameters(model), BATCH, key=jax.random.key(seed))
    return found


def steps(count: int, accumulation: int, monkeypatch: pytest.MonkeyPatch) -> list[Draw]:
    """The masks of train steps one after the other."""
    train = Train(batch_size=2, accumulation=accumulation, steps=count)
    config = Config(model=MODEL, train=train, optim=Optim(optimizer=SGD(), clip=None))
    model, zero = Decoder(MODEL), jnp.zeros((), jnp.int32)
    state = State(zero, parameters(MODEL), optax.EmptyState(), jax.random.key(0), zero, zero)
    with draws(monkeypatch) as found:
        for _ in range(count):
            state, _ = make_train_step(model, config)(state, BATCH, hyper(config, model))
    return found


@pytest.mark.bug("google/flax#4950", "google/flax#4589")
def test_each_site_of_each_layer_draws_its_own_mask(monkeypatch: pytest.MonkeyPatch):
    found = masks(MODEL, monkeypatch)
    assert len(found) == len({key for key, _ in found}) == 1 + 3 * MODEL.num_layers  # embedding; weights, two outputs


@pytest.mark.bug("google/flax#4950", "google/flax#4589")
def test_steps_and_micro_batches_draw_their_own_masks(monkeypatch: pytest.MonkeyPatch):
    a_pass = len(masks(MODEL, monkeypatch))
    for count, accumulation in ((2, 1), (1, 2)):
        found = steps(count, accumulation, monkeypatch)
        assert len(found) == len({key for key, _ in found}) == 2 * a_pass


def test_the_same_step_draws_the_same_masks(monkeypatch: pytest.MonkeyPatch):
    assert masks(MODEL, monkeypatch) == masks(MODEL, monkeypatch) != masks(MODEL, monkeypatch, seed=1)


ARMS: dict[str, tuple[tuple[str, Any], ...]] = {
    "norm placement": (("norm_placement", "post"),),
    "query and key norms": (("attention.qk_norm", "head"),),
    "position": (("position", Rope()),),
    "feed-forward": (("feedforward", Dense(activation="swiglu", hidden=24)),),
    "depth": (("num_layers", 3),),
    "period": (("num_layers", 4), ("pattern", (Layer(), Layer(mixer=SelfAttention(window=2))))),
    "depth, its parameters shared": (("num_layers", 3), ("sharing", "periods")),
    "first layers": (("num_layers", 3), ("first_layers", (Layer(),))),
}


@pytest.mark.parametrize("change", ARMS.values(), ids=ARMS.keys())
def test_arms_draw_the_same_masks_where_both_have_the_site(change: Any, monkeypatch: pytest.MonkeyPatch):
    assert set(masks(MODEL, monkeypatch)) <= set(masks(put_all(MODEL, change), monkeypatch))


@pytest.mark.parametrize("sites", [c for n in range(4) for c in itertools.combinations(SITES, n)], ids="+".join)
def test_it_applies_at_the_sites_of_the_config_and_nowhere_else(sites: tuple[Any, ...], monkeypatch: Any):
    count = {"embedding": 1, "attention": MODEL.num_layers, "residual": 2 * MODEL.num_layers, "head": 0}
    assert len(masks(replace(MODEL, dropout_sites=sites), monkeypatch)) == sum(count[site] for site in sites)


@pytest.mark.parametrize("form", [{"unroll": 1}, {"unroll": "all"}, {"remat": "full"}], ids=str)
def test_scanned_and_rematerialised_layers_drop_what_single_ones_drop(form: dict[str, Any]):
    def loss(model: Model, params: Any, key: jax.Array) -> jax.Array:
        return jnp.square(Decoder(model).apply(params, BATCH, key=key, unembed=False).hidden).sum()

    arguments = parameters(MODEL), jax.random.key(0)
    with jax.disable_jit():
        alone = jax.grad(partial(loss, MODEL))(*arguments)
    other = jax.grad(partial(loss, replace(MODEL, **form)))
    assert_close(compiled(other, *arguments)(*arguments), alone, 1e-5)


def test_rows_of_a_batch_are_dropped_apart():
    twice = Batch(tokens=jnp.tile(TOKENS[:1], (2, 1)))
    with jax.disable_jit():
        one, other = Decoder(MODEL).apply(parameters(MODEL), twice, key=jax.random.key(0)).hidden
    assert not np.allclose(one, other)


def test_a_traced_rate_needs_one_program_and_rate_0_drops_nothing():
    def hidden(rate: jax.Array) -> jax.Array:
        knobs = Knobs(scale=Decoder(MODEL).knobs().scale, dropout=rate)
        return Decoder(MODEL).apply(parameters(MODEL), BATCH, knobs=knobs, key=jax.random.key(0)).hidden

    program = compiled(hidden, jnp.float32(0))
    plain = program(jnp.float32(0))
    assert_close(plain, Decoder(MODEL).apply(parameters(MODEL), BATCH).hidden, 1e-5)
    assert not np.allclose(program(jnp.float32(0.5)), plain)


def test_without_a_key_nothing_is_drawn():
    text = str(jax.make_jaxpr(lambda params: Decoder(MODEL).apply(params, BATCH).logits)(parameters(MODEL)))
    assert "random" not in text and "threefry" not in text
