"""The train step: what accumulation, clipping, weights of zero and non-finite numbers may and may not change."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Config, Group, Model, Optim, Train
from txjax.decode.generate import Sampling, generate
from txjax.models import Decoder
from txjax.nn.parameters import path_name
from txjax.ops.schedules import Cosine
from txjax.train.optimizers import AdamW
from txjax.train.state import Hyper, State, hyper, initial_state
from txjax.train.step import StepMetrics, make_evaluation_step, make_train_step

V, T, ROWS, STEPS = 7, 12, 8, 4
MODEL = Model(width=8, num_layers=2, vocab_size=V, context=T)
# a small clip, so that every step is clipped; groups with rates of their own; eps keeps Adam from dividing noise by 0
OPTIM = Optim(
    learning_rate=0.02,
    optimizer=AdamW(eps=1e-3),
    schedule=Cosine(2, final=0.1),
    clip=0.1,
    groups=(Group("embedding", 0.5, 0.0), Group("norm", 2.0)),
)
TRAIN = Train(steps=STEPS, batch_size=ROWS, label_smoothing=0.1, seed=3)
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def config(**train: Any) -> Config:
    return Config(model=MODEL, optim=OPTIM, train=replace(TRAIN, **train))


def batch(number: int) -> Batch:
    """Rows of 3 to 12 tokens that count, by weights of 1 and 2. Rows 0 and 4, a micro-batch of four, have none."""
    random = np.random.default_rng(number)
    text = random.integers(0, V, (ROWS, T + 1)).astype(np.int32)
    lengths = np.array([0, 12, 3, 7, 0, 5, 11, 4])
    weights = (np.arange(T) < lengths[:, None]) * random.choice([1.0, 2.0], (ROWS, T))
    return Batch(tokens=text[:, :-1], targets=text[:, 1:], weights=weights.astype(np.float32))


@cache
def start() -> tuple[State, Hyper]:
    model = Decoder(MODEL)
    return quick(lambda: initial_state(config(), model))(), hyper(config(), model)


@cache
def step_of(accumulation: int) -> Any:
    return quick(make_train_step(Decoder(MODEL), config(accumulation=accumulation)))


@cache
def run_of(accumulation: int) -> tuple[State, list[StepMetrics]]:
    """The state after STEPS steps, and the metrics of each."""
    (state, numbers), metrics = start(), []
    for number in range(STEPS):
        state, seen = step_of(accumulation)(state, batch(number), numbers)
        metrics.append(jax.device_get(seen))
    return state, metrics


def equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


# Accumulation


@pytest.mark.bug("huggingface/transformers#34191", "huggingface/transformers#34198", "meta-pytorch/torchtune#1875")
@pytest.mark.bug("OpenNMT/OpenNMT-py#2209", "OpenNMT/OpenNMT-py#526", "karpathy/nanochat#59")
@pytest.mark.bug("google-deepmind/optax#1567", "T116")
@pytest.mark.parametrize("accumulation", [2, 4])
def test_accumulation_changes_nothing(accumulation: int):
    (whole, metrics), (cut, cut_metrics) = run_of(1), run_of(accumulation)
    for got, want in zip(cut_metrics, metrics, strict=True):
        assert got.tokens == want.tokens
        np.testing.assert_allclose([got.loss, got.grad_norm], [want.loss, want.grad_norm], rtol=3e-6)
    for got, want in zip(jax.tree.leaves(cut.params), jax.tree.leaves(whole.params), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)
    assert cut.step == whole.step == STEPS


@pytest.mark.bug("AI-Hypercomputer/maxtext#3452", "T020", "huggingface/accelerate#963", "Lightning-AI/litgpt#1927")
@pytest.mark.parametrize("accumulation", [1, 4])
def test_the_schedule_counts_optimizer_steps(accumulation: int):
    rates = [m.learning_rate for m in run_of(accumulation)[1]]
    np.testing.assert_allclose(rates, 0.02 * np.array([0.5, 1.0, 0.1 + 0.9 / 2, 0.1]), rtol=1e-5)


def test_loss_and_gradient_are_sums_over_tokens_divided_once_by_their_weights():
    state, _ = start()
    metrics = run_of(1)[1][0]
    first = batch(0)

    def loss(params: Any) -> jax.Array:
        logits = Decoder(MODEL).apply(params, first).logits
        log_p = jax.nn.log_softmax(logits)
        token = -0.9 * jnp.take_along_axis(log_p, first.targets[..., None], -1)[..., 0] - 0.1 * log_p.mean(-1)
        return (token * first.weights).sum() / first.weights.sum()

    want, gradient = quick(jax.value_and_grad(loss))(state.params)
    np.testing.assert_allclose(metrics.loss, want, rtol=1e-5)
    assert metrics.tokens == first.weights.sum()
    norm = sum(float((np.asarray(g, np.float64) ** 2).sum()) for g in jax.tree.leaves(gradient)) ** 0.5
    np.testing.assert_allclose(metrics.grad_norm, norm, rtol=1e-5)  # logged as it was before clipping
    assert norm > 2 * OPTIM.clip


def test_a_batch_without_weights_counts_every_token():
    state, numbers = start()
    bare = replace(batch(0), weights=None)
    ones = replace(bare, weights=np.ones((ROWS, T), np.float32))
    (_, metrics), (_, want) = (step_of(1)(state, b, numbers) for b in (bare, ones))
    assert metrics.tokens == ROWS * T
    np.testing.assert_allclose(metrics.loss, want.loss, rtol=1e-6)


@pytest.mark.bug("T116")
def test_a_batch_that_counts_nothing_has_loss_and_gradient_zero():
    state, numbers = start()
    nothing = replace(batch(0), weights=np.zeros((ROWS, T), np.float32))
    after, metrics = step_of(4)(state, nothing, numbers)
    assert metrics.loss == metrics.tokens == metrics.grad_norm == 0 and after.skipped == 0
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(after.params))


# What is not finite


@pytest.mark.bug("paiml/aprender#2112", "ml-explore/mlx-lm#1658", "ml-explore/mlx-lm#1659", "apple/axlearn#297")
@pytest.mark.bug("m2lines/Samudra#806")
@pytest.mark.parametrize("cause", ["loss", "gradient", "update"])
def test_a_step_that_is_not_finite_is_counted_and_moves_nothing(cause: str):
    state, _ = run_of(1)
    _, numbers = start()
    bad, bad_numbers = batch(9), numbers
    if cause == "loss":
        bad.weights[1, 0] = np.nan
    elif cause == "gradient":
        # logits are 0 behind a final norm of zeros, but the gradient of its gain has a norm of 1e30 squared
        zero = jax.tree.map(jnp.zeros_like, state.params["final_norm"])
        huge = {"w": 1e30 * state.params["embedding"]["w"]}
        state = replace(state, params=state.params | {"embedding": huge, "final_norm": zero})
    else:
        bad_numbers = replace(numbers, learning_rate=jnp.float32(np.inf))
    after, metrics = step_of(1)(state, bad, bad_numbers)
    assert np.isfinite(metrics.loss) == (cause != "loss")
    assert np.isfinite(metrics.grad_norm) == (cause == "update")
    assert equal(after.params, state.params) and equal(after.opt_state, state.opt_state)
    assert (after.step, after.skipped, after.in_a_row) == (STEPS + 1, 1, 1)
    again, metrics = step_of(1)(after, bad, bad_numbers)
    assert (metrics.skipped, metrics.in_a_row) == (again.skipped, again.in_a_row) == (2, 2)
    if cause != "gradient":
        good, metrics = step_of(1)(again, batch(1), numbers)
        assert (metrics.skipped, metrics.in_a_row) == (good.skipped, good.in_a_row) == (2, 0)
        assert not equal(good.params, state.params)


# Keys


@pytest.mark.bug("jax-ml/jax#192", "jax-ml/jax#2009", "google/flax#2665", "jax-ml/jax#3646")
def test_no_key_is_used_twice():
    dropped = replace(MODEL, dropout=0.2)
    model, settings = Decoder(dropped), replace(config(), model=dropped)
    with jax.debug_key_reuse(True):
        state = quick(lambda: initial_state(settings, model))()
        step = quick(make_train_step(model, settings))
        losses = []
        for _ in range(2):
            _, metrics = step(state, batch(0), hyper(settings, model))
            state = replace(state, step=state.step + 1)
            losses.append(float(metrics.loss))
        how: Any = {"tokens": 6, "sampling": Sampling(), "context": T}
        texts = generate(model, state.params, [[1], [1]], seeds=[0, 1], **how)
    assert losses[0] != losses[1]  # the same weights and batch, another step's dropout
    assert texts[0] != texts[1] and len(set(texts[0])) > 1
    with jax.debug_key_reuse(True), pytest.raises(jax.errors.KeyReuseError):  # the check does see a reuse
        key = jax.random.key(0)
        jax.random.normal(key), jax.random.normal(key)


@pytest.mark.bug("jax-ml/jax#192", "google/flax#2665")
def test_stacked_layers_start_differently():
    layers = start()[0].params["layers"]
    for path, leaf in jax.tree_util.tree_leaves_with_path(layers):
        assert path_name(path).endswith(("gain", "bias", "/b")) or not np.array_equal(leaf[0], leaf[1])


# What is one, and how many there are


@pytest.mark.bug("T110")
def test_a_tied_head_is_the_embedding_with_one_slot_in_the_optimizer():
    (start_state, _), (state, _) = start(), run_of(1)
    names = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(state.params)]
    assert names.count("embedding/w") == 1 and not any("head" in name for name in names)
    moments = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(state.opt_state)]
    assert sum(name.endswith("embedding/w") for name in moments) == 2  # Adam's mean and square
    model, hidden = Decoder(MODEL), jnp.ones((1, 1, 8))
    embedding = np.asarray(state.params["embedding"]["w"])
    assert not np.array_equal(embedding, start_state.params["embedding"]["w"])
    np.testing.assert_allclose(model.unembed(state.params, hidden)[0, 0], embedding.sum(1), atol=1e-6)
    untied = Decoder(replace(MODEL, head="linear")).shapes()
    assert untied["head"]["w"].shape == (8, V)


@pytest.mark.bug("pytorch/pytorch#55270", "harvardnlp/annotated-transformer#13", "harvardnlp/annotated-transformer#92")
@pytest.mark.bug("lucidrains/vit-pytorch#56")
@pytest.mark.parametrize(
    ("placement", "per_layer", "final"), [("pre", 2, 1), ("post", 2, 0), ("sandwich", 4, 1), ("output", 2, 1)]
)
def test_the_number_of_norms(placement: Any, per_layer: int, final: int):
    for depth in (1, 3):
        shapes = Decoder(replace(MODEL, num_layers=depth, norm_placement=placement)).shapes()
        leaves = jax.tree_util.tree_leaves_with_path(shapes)
        gains = sum(leaf.size // MODEL.width for path, leaf in leaves if path_name(path).endswith("gain"))
        assert gains == per_layer * depth + final


# Evaluation


@pytest.mark.bug("paiml/aprender#2199")
def test_evaluation_knows_no_smoothing_no_dropout_and_sums():
    smooth = replace(config(), model=replace(MODEL, dropout=0.5))
    state, numbers = start()
    evaluate = quick(make_evaluation_step(Decoder(smooth.model), smooth))
    first = batch(0)
    total, right, tokens = evaluate(state.params, first, replace(numbers.model, dropout=jnp.float32(0.5)))
    log_p = np.asarray(jax.nn.log_softmax(Decoder(MODEL).apply(state.params, first).logits), np.float64)
    at_target = np.take_along_axis(log_p, first.targets[..., None], -1)[..., 0]
    np.testing.assert_allclose(total, -(at_target * first.weights).sum(), rtol=1e-5)
    assert right == ((log_p.argmax(-1) == first.targets) * first.weights).sum()
    assert tokens == first.weights.sum()
