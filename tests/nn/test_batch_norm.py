"""Batch norm in a model: where its statistics come from, how they move, and what sees whom. Its values against torch:
test_mixers_golden.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from txjax.batch import Batch
from txjax.config import Config, Model, Optim, Train
from txjax.models import Decoder
from txjax.nn.mixers.none import NoMixer
from txjax.nn.norm import Norm
from txjax.ops.norms import BatchNorm
from txjax.ops.positions import NoPosition
from txjax.schema import ConfigError
from txjax.train.state import State, hyper
from txjax.train.step import make_train_step

MODEL = Model(
    width=16, num_layers=2, vocab_size=32, context=8, position=NoPosition(), norm=BatchNorm(momentum=0.25), remat="none"
)
# one norm, of the embedded tokens themselves
ALONE = replace(MODEL, mixer=NoMixer(), feedforward="none")
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 32, (4, 8)), jnp.int32)
LENGTHS = np.array([8, 3, 1, 6])
REAL = np.arange(8) < LENGTHS[:, None]
PADDED = Batch(tokens=TOKENS, targets=TOKENS, segments=jnp.asarray(REAL, jnp.int32))


def parameters(model: Model) -> Any:
    random = np.random.default_rng(1)
    return jax.tree.map(lambda w: jnp.asarray(random.uniform(0.1, 1, w.shape), jnp.float32), Decoder(model).shapes())


def statistics(tree: Any) -> dict[str, Any]:
    """Of every norm, by path."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(p): x for p, x in leaves if p[-1].key in ("mean", "variance")}


def train(model: Model, batch: Batch, accumulation: int = 1) -> tuple[Any, Any]:
    """Parameters before and after a step with a large rate and weight decay."""
    config = Config(
        model=model,
        optim=Optim(learning_rate=0.1, weight_decay=0.5),
        train=Train(batch_size=4, accumulation=accumulation, steps=4),
    )
    decoder, zero = Decoder(model), jnp.zeros((), jnp.int32)
    params = parameters(model)
    moments = config.optim.optimizer.direction(decoder.axes()).init(params)
    state = State(zero, params, moments, jax.random.key(0), zero, zero)
    after, _ = jax.jit(make_train_step(decoder, config))(state, batch, hyper(config, decoder))
    return params, after.params


@pytest.mark.parametrize("count_padding", [False, True])
def test_a_step_moves_the_statistics_towards_those_of_its_batch(count_padding: bool):
    model = replace(ALONE, norm=BatchNorm(momentum=0.25, count_padding=count_padding))
    before, after = train(model, PADDED)
    counted = np.ones_like(REAL) if count_padding else REAL
    x = np.asarray(before["embedding"]["w"], np.float64)[np.asarray(TOKENS)[counted]]
    for name, of_batch in (("mean", x.mean(0)), ("variance", x.var(0, ddof=1))):
        want = 0.75 * before["final_norm"][name] + 0.25 * of_batch
        np.testing.assert_allclose(after["final_norm"][name], want, rtol=1e-5)


def test_micro_batches_move_the_statistics_by_their_mean():
    before, after = train(ALONE, Batch(tokens=TOKENS, targets=TOKENS), accumulation=2)
    x = np.asarray(before["embedding"]["w"], np.float64)[np.asarray(TOKENS)]
    of_parts = np.mean([x[part::2].reshape(-1, 16).var(0, ddof=1) for part in range(2)], axis=0)
    want = 0.75 * before["final_norm"]["variance"] + 0.25 * of_parts
    np.testing.assert_allclose(after["final_norm"]["variance"], want, rtol=1e-5)


def test_every_norm_of_every_layer_has_its_own():
    before, after = (statistics(tree) for tree in train(MODEL, PADDED))
    assert len(before) == 2 * 3  # two in a layer, stacked over layers, and the last one
    for path in before:
        assert (np.abs(after[path] - before[path]) > 1e-5).mean() > 0.9, path
    assert after["['layers']['block_0']['mixer_norm']['mean']"].shape == (2, 16)


@pytest.mark.parametrize("key", [jax.random.key(0), None], ids=["training", "evaluation"])
def test_statistics_get_no_gradient_and_everything_else_does(key: Any):
    def loss(params: Any) -> jax.Array:
        return jnp.square(Decoder(MODEL).apply(params, PADDED, key=key).logits).sum()

    gradients = jax.jit(jax.grad(loss))(parameters(MODEL))
    assert all((leaf == 0).all() for leaf in statistics(gradients).values())
    moved = optax.tree.norm(gradients["layers"]["block_0"]["mixer_norm"]["gain"])
    assert moved > 0.01


def test_evaluation_uses_the_statistics_and_training_does_not():
    params = parameters(ALONE)
    shifted = {**params, "final_norm": {**params["final_norm"], "mean": params["final_norm"]["mean"] + 1}}

    def both(key: Any) -> list[np.ndarray]:
        return [np.asarray(Decoder(ALONE).apply(p, PADDED, key=key, unembed=False).hidden) for p in (params, shifted)]

    in_training, in_evaluation = both(jax.random.key(0)), both(None)
    np.testing.assert_array_equal(*in_training)
    drop = params["final_norm"]["gain"] / np.sqrt(params["final_norm"]["variance"] + 1e-5)
    np.testing.assert_allclose(in_evaluation[0] - in_evaluation[1], np.broadcast_to(drop, (4, 8, 16)), atol=1e-4)


def test_in_training_tokens_see_later_ones_and_other_rows_and_in_evaluation_not():
    """Where nothing else mixes tokens."""
    params, changed = parameters(ALONE), TOKENS.at[3, 7].add(1) % 32
    for key in (jax.random.key(0), None):
        one, other = (
            Decoder(ALONE).apply(params, Batch(tokens=tokens), key=key, unembed=False).hidden
            for tokens in (TOKENS, changed)
        )
        assert bool((np.asarray(one)[0] != other[0]).any()) == (key is not None)


def test_padding_changes_what_training_gives_a_token_only_where_it_is_counted():
    params = parameters(ALONE)
    noise = jnp.where(REAL, TOKENS, (TOKENS + 7) % 32)
    for count_padding in (False, True):
        model = replace(ALONE, norm=BatchNorm(count_padding=count_padding))
        one, other = (
            np.asarray(
                Decoder(model)
                .apply(params, replace(PADDED, tokens=tokens), key=jax.random.key(0), unembed=False)
                .hidden
            )[REAL]
            for tokens in (TOKENS, noise)
        )
        assert np.allclose(one, other, atol=1e-6) == (not count_padding)


def test_a_batch_of_padding_leaves_finite_values_and_the_statistics_alone():
    empty = replace(PADDED, segments=jnp.zeros((4, 8), jnp.int32))
    out = Decoder(ALONE).apply(parameters(ALONE), empty, key=jax.random.key(0))
    assert np.isfinite(out.logits).all()
    np.testing.assert_array_equal(out.updates["final_norm"]["mean"], parameters(ALONE)["final_norm"]["mean"])


@pytest.mark.parametrize(("momentum", "eps"), [(0.0, 1e-5), (1.5, 1e-5), (0.1, 0.0)])
def test_numbers_that_mean_nothing_are_refused(momentum: float, eps: float):
    with pytest.raises(ConfigError, match="must be"):
        BatchNorm(momentum=momentum, eps=eps)


def test_a_place_without_other_tokens_refuses_it():
    """A head says so of its config (tests/nn/test_heads.py); this is for who builds another such place."""
    with pytest.raises(ConfigError, match=r"norm=batch looks at other tokens, and .* has none: choose another norm"):
        Norm(BatchNorm()).init(jax.random.key(0), jnp.ones((1, 2, 3)))
