"""Mixtures of experts as pure functions: against a reading of the papers in NumPy, a token and an expert at a time."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.ops.moe import dispatch, routing
from txjax.ops.moe.dispatch import Experts, Map
from txjax.ops.moe.routing import Groups, Routing

B, T, D, F, E, K = 3, 7, 5, 6, 8, 3
ROUTE: dict[str, Any] = {
    "top_k": K, "gate": "softmax", "renormalise": False, "scale": 1.0, "groups": None, "bias_E": None,
}  # fmt: skip
# all real; padding on both sides; padding alone
REAL = (np.arange(T) >= np.array([[0], [2], [7]])) & (np.arange(T) < np.array([[7], [6], [7]]))
ALL = np.ones((B, T), bool)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


LOGITS, X = draw(B, T, E), draw(B, T, D)


def experts(gated: bool, bias: bool) -> Experts:
    def map(into: int, out: int, seed: int) -> Map:
        return Map(draw(E, into, out, seed=seed), draw(E, out, seed=seed) if bias else None)  # type: ignore[arg-type]

    return Experts(map(D, F, 1), map(D, F, 2) if gated else None, map(F, D, 3))


@partial(jax.jit, static_argnames=("top_k", "gate", "renormalise", "scale", "groups"))
def route(logits: jax.Array, **how: Any) -> Routing:
    return routing.route(logits, **how)


def routed(**changes: Any) -> Routing:
    return route(jnp.asarray(LOGITS), **ROUTE | changes)


@partial(jax.jit, static_argnames=("activation", "factor"))
def applied(
    x: Any, found: Routing, real: Any, own: Experts, activation: str = "swiglu", factor: float | None = None
) -> jax.Array:
    """Dropless, or with a capacity where a factor is given."""
    if factor is None:
        return dispatch.dropless(x, found, real, own, activation)
    return dispatch.with_capacity(x, found, real, own, activation, factor)


# Which experts, with what weights


def softmax(values: np.ndarray) -> np.ndarray:
    e = np.exp(np.float64(values) - values.max())
    return e / e.sum()


def reading(logits_E: np.ndarray, bias_E: np.ndarray, how: dict[str, Any]) -> dict[int, float]:
    """The experts of one token and their weights, as the papers have it."""
    scores = 1 / (1 + np.exp(-np.float64(logits_E))) if how["gate"] == "sigmoid" else softmax(logits_E)
    allowed = list(range(E))
    if how["groups"] is not None:
        number, kept, best = how["groups"]
        members = np.arange(E).reshape(number, -1)
        worth = [sum(sorted((scores + bias_E)[own])[-best:]) for own in members]
        allowed = [e for group in np.argsort(worth)[-kept:] for e in members[group]]
    chosen = sorted(allowed, key=lambda e: -(scores + bias_E)[e])[: how["top_k"]]
    weights = softmax(logits_E[chosen]) if how["gate"] == "softmax_chosen" else scores[chosen]
    if how["renormalise"]:
        weights = weights / weights.sum()
    return {e: how["scale"] * w for e, w in zip(chosen, weights, strict=True)}


@pytest.mark.bug("pytorch/torchtitan#1448", "NVIDIA/Megatron-LM#955", "NVIDIA/Megatron-LM#1593")
@pytest.mark.bug("databricks/megablocks#87", "Lightning-AI/litgpt#2013", "lablup/mlxcel#391")
@pytest.mark.parametrize("gate", ["softmax", "softmax_chosen", "sigmoid"])
@pytest.mark.parametrize("groups", [None, Groups(4, 2, 2), Groups(2, 1, 1), Groups(4, 3, 1)], ids=str)
def test_experts_and_weights_are_those_of_the_papers(gate: routing.Gate, groups: Groups | None):
    for top_k, renormalise, bias in product([1, K], [False, True], [0.0, 0.3]):
        bias_E = bias * draw(E, seed=9)
        how = ROUTE | {"top_k": top_k, "gate": gate, "renormalise": renormalise, "scale": 1.7, "groups": groups}
        got = routing.route(jnp.asarray(LOGITS), **how | {"bias_E": jnp.asarray(bias_E) if bias else None})
        assert got.weights_BTK.dtype == jnp.float32
        for place in np.ndindex(B, T):
            want = reading(LOGITS[place], bias_E, how)
            assert np.asarray(got.experts_BTK[place]).tolist() == list(want)  # the best first
            np.testing.assert_allclose(got.weights_BTK[place], list(want.values()), rtol=2e-6)


def test_a_softmax_renormalised_is_the_softmax_of_the_chosen():
    one, other = routed(renormalise=True), routed(gate="softmax_chosen")
    assert np.array_equal(one.experts_BTK, other.experts_BTK)
    np.testing.assert_allclose(one.weights_BTK, other.weights_BTK, rtol=1e-6)


def test_gates_that_are_all_shut_give_no_nan():
    def weights(logits: jax.Array) -> jax.Array:
        found = routing.route(logits, **ROUTE | {"gate": "sigmoid", "renormalise": True})
        return found.weights_BTK[..., 0].sum() + routing.balance_loss(found, jnp.ones((1, 1), bool), "batch")

    value, gradient = jax.value_and_grad(weights)(jnp.full((1, 1, E), -200.0))
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_the_bias_chooses_and_neither_weighs_nor_learns():
    def total(bias_E: jax.Array) -> tuple[jax.Array, Routing]:
        found = routed(bias_E=bias_E, gate="sigmoid")
        return (found.weights_BTK * np.arange(1, K + 1)).sum(), found

    pushed = jnp.zeros(E).at[5].set(10.0)
    gradient, found = jax.grad(total, has_aux=True)(pushed)
    assert (found.experts_BTK[..., 0] == 5).all() and not gradient.any()
    np.testing.assert_allclose(found.weights_BTK[..., 0], jax.nn.sigmoid(LOGITS[..., 5]), rtol=1e-6)


# Experts applied


def one_expert(x_D: np.ndarray, own: Experts, e: int) -> np.ndarray:
    def through(x: np.ndarray, map: Map) -> np.ndarray:
        return x @ np.float64(map.w[e]) + (0.0 if map.b is None else np.float64(map.b[e]))

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    def silu(x: np.ndarray) -> np.ndarray:
        return x / (1 + np.exp(-x))

    hidden = through(x_D, own.inward)
    return through(relu(hidden) if own.gate is None else silu(through(x_D, own.gate)) * hidden, own.outward)


def looped(own: Experts, found: Routing, real: np.ndarray, capacity: list[int] | None = None) -> np.ndarray:
    """The sum over a token's experts, one by one, in the order of the tokens; capacity: of an expert in each row."""
    y = np.zeros((B, T, D))
    for b in range(B):
        taken = dict.fromkeys(range(E), 0)
        for t, k in product(range(T), range(K)):
            e = int(found.experts_BTK[b, t, k])
            if not real[b, t] or (capacity is not None and taken[e] == capacity[b]):
                continue
            taken[e] += 1
            y[b, t] += float(found.weights_BTK[b, t, k]) * one_expert(X[b, t], own, e)
    return y


NETWORKS = pytest.mark.parametrize(("gated", "bias"), [(False, True), (True, False)], ids=["plain", "gated"])
ACTIVATION = {False: "relu", True: "swiglu"}


@NETWORKS
@pytest.mark.parametrize("real", [ALL, REAL], ids=["full", "padded"])
def test_dropless_is_a_loop_over_tokens_and_experts(gated: bool, bias: bool, real: np.ndarray):
    own, found = experts(gated, bias), routed()
    got = applied(X, found, real, own, ACTIVATION[gated])
    np.testing.assert_allclose(got, looped(own, found, real), atol=2e-5)


@pytest.mark.bug("AI-Hypercomputer/maxtext#833", "laekov/fastmoe#34", "vllm-project/vllm-ascend#14926")
@NETWORKS
def test_a_capacity_that_holds_all_is_dropless_in_values_and_gradients(gated: bool, bias: bool):
    found, towards = routed(), draw(B, T, D, seed=5)

    def total(x: jax.Array, own: Experts, weights: jax.Array, factor: float | None) -> jax.Array:
        y = applied(x, found._replace(weights_BTK=weights), REAL, own, ACTIVATION[gated], factor)
        return (y * towards).sum()

    gradient = jax.jit(jax.value_and_grad(total, (0, 1, 2)), static_argnums=3)
    arguments = X, experts(gated, bias), found.weights_BTK
    one, other = (gradient(*arguments, factor) for factor in (None, E / K))
    for got, want in zip(jax.tree.leaves(other), jax.tree.leaves(one), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.bug("AI-Hypercomputer/maxtext#833", "laekov/fastmoe#34", "deepseek-ai/DeepSeek-MoE#29")
@pytest.mark.parametrize("factor", [0.2, 0.5, 1.25])
def test_what_is_beyond_a_capacity_adds_nothing_and_earlier_tokens_go_first(factor: float):
    own, found = experts(False, True), routed()
    capacity = [math.ceil(factor * n * K / E) for n in REAL.sum(1)]
    got = applied(X, found, REAL, own, "relu", factor)
    want = looped(own, found, REAL, capacity)
    np.testing.assert_allclose(got, want, atol=2e-5)
    kept = np.asarray(dispatch.places(found.experts_BTK, jnp.asarray(REAL), E, factor).kept_BTK)
    without = ~kept.any(-1)
    assert (np.asarray(got)[without] == 0).all() and without[REAL].any() == (factor < 0.5)
    assert 0 < kept.sum() < K * REAL.sum()
    for b, e in product(range(B), range(E)):
        assert (kept[b] & (np.asarray(found.experts_BTK[b]) == e)).sum() <= capacity[b]


def test_no_token_depends_on_a_later_one_for_its_place():
    experts_BTK = routed().experts_BTK
    straight = dispatch.places(experts_BTK, jnp.asarray(ALL), E, 0.5)
    changed = dispatch.places(experts_BTK.at[:, 4:].set((experts_BTK[:, 4:] + 1) % E), jnp.asarray(ALL), E, 0.5)
    for one, other in zip(straight, changed, strict=True):
        assert np.array_equal(one[:, :4], other[:, :4]) and not np.array_equal(one, other)


@pytest.mark.bug("vllm-project/vllm-ascend#14926", "T109")
@pytest.mark.parametrize("factor", [None, float(E)], ids=["dropless", "capacity"])
@pytest.mark.parametrize("only", [0, E - 1])
def test_experts_that_get_no_token_change_nothing_and_learn_nothing(only: int, factor: float | None):
    found, own = routed(top_k=1)._replace(experts_BTK=jnp.full((B, T, 1), only)), experts(False, True)

    def total(own: Experts) -> tuple[jax.Array, jax.Array]:
        y = applied(X, found, ALL, own, "relu", factor)
        return y.sum(), y

    gradient, y = jax.jit(jax.grad(total, has_aux=True))(own)
    for place in np.ndindex(B, T):
        want = float(found.weights_BTK[place][0]) * one_expert(X[place], own, only)
        np.testing.assert_allclose(y[place], want, atol=2e-5)
    for leaf in map(np.asarray, jax.tree.leaves(gradient)):
        assert np.isfinite(leaf).all() and leaf[only].any()
        assert not np.delete(leaf, only, axis=0).any()


def test_models_of_a_population_are_routed_each_by_itself():
    own = experts(True, True)
    models = [(draw(B, T, E, seed=i), jax.tree.map(lambda w, i=i: w * (1 - i / 3), own)) for i in (0, 1)]

    def one(logits: jax.Array, own: Experts) -> jax.Array:
        return applied(X, route(logits, **ROUTE), REAL, own)

    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)
    np.testing.assert_allclose(jax.vmap(one)(*both), [one(*model) for model in models], atol=2e-5)


# Padding

WAYS = pytest.mark.parametrize("factor", [None, 0.7], ids=["dropless", "capacity"])


@jax.jit
def measures(logits: jax.Array, real: jax.Array) -> dict[str, jax.Array]:
    """What a step says and does of a routing."""
    found = routing.route(logits, **ROUTE)
    load = routing.loads(found.experts_BTK, real, E)
    return {
        "load": load.sum(0),
        "balance": routing.balance_loss(found, real, "batch"),
        "balance of sequences": routing.balance_loss(found, real, "sequence"),
        "z": routing.z_loss(logits, real),
        "bias": routing.balanced_bias(jnp.zeros(E), load.sum(0), 0.1),
        "entropy": routing.entropy(found.shares_BTE, real),
        "largest": routing.largest_load(load.sum(0)),
    }


@pytest.mark.bug("huggingface/transformers#28505", "huggingface/transformers#28517", "huggingface/transformers#29363")
@pytest.mark.bug("NVIDIA/Megatron-LM#1984", "NVIDIA/Megatron-LM#2121", "pytorch/torchtitan#4594")
@WAYS
@pytest.mark.parametrize("pad", [0, 30])
def test_padding_is_not_routed(factor: float | None, pad: int):
    """No output, capacity, load or loss changes with the number of padding tokens and with what is in them."""
    own = experts(True, True)
    want = applied(X, routed(), REAL, own, factor=factor)

    def longer(values: np.ndarray, junk: Any) -> np.ndarray:
        padded = np.pad(values, [(0, 0), (0, pad), (0, 0)])
        return np.where(real[..., None], padded, junk).astype(np.float32)

    real = np.pad(REAL, [(0, 0), (0, pad)])
    logits = longer(LOGITS, [50.0] + [0.0] * (E - 1))  # all the padding would go to the first expert
    got = applied(longer(X, np.nan), route(logits, **ROUTE), real, own, factor=factor)
    np.testing.assert_allclose(got[:, :T], want, atol=1e-6 * np.abs(want).max())  # sums in another order on some CPUs
    assert not got[~real].any()
    seen = measures(logits, real)
    for name, value in measures(LOGITS, REAL).items():
        np.testing.assert_allclose(seen[name], value, rtol=2e-6, err_msg=name)


@pytest.mark.bug("T034")
@WAYS
def test_padding_has_no_gradient(factor: float | None):
    own, towards = experts(True, True), draw(B, T, D, seed=5)

    def total(x: jax.Array, logits: jax.Array, own: Experts) -> jax.Array:
        measured = measures(logits, REAL)
        y = applied(x, route(logits, **ROUTE), REAL, own, factor=factor)
        return (y * towards).sum() + measured["balance"] + measured["balance of sequences"] + measured["z"]

    x = np.where(REAL[..., None], X, np.float32(np.nan))
    *of_tokens, of_experts = jax.jit(jax.grad(total, (0, 1, 2)))(x, LOGITS, own)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(of_experts))
    for gradient in map(np.asarray, of_tokens):
        assert not gradient[~REAL].any() and np.isfinite(gradient).all()
        assert (np.abs(gradient[REAL]).max(-1) > 0).all() or factor is not None


# Balance


def numpy_balance(found: Routing, real: np.ndarray) -> float:
    """Dai et al. 2024, equations 12 to 14, of the real tokens among these."""
    tokens = [p for p in np.ndindex(real.shape) if real[p]]
    shares = np.float64(found.shares_BTE)
    f = [E / (K * len(tokens)) * sum(e in np.asarray(found.experts_BTK[p]) for p in tokens) for e in range(E)]
    share = [np.mean([shares[p][e] for p in tokens]) for e in range(E)]
    return float(np.dot(f, share))


@pytest.mark.bug("huggingface/transformers#31464")
@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_the_balance_loss_is_its_formula(gate: routing.Gate):
    found = routed(gate=gate)
    scores = np.exp(np.float64(LOGITS)) if gate == "softmax" else 1 / (1 + np.exp(-np.float64(LOGITS)))
    np.testing.assert_allclose(found.shares_BTE, scores / scores.sum(-1, keepdims=True), rtol=1e-5)
    of_batch = routing.balance_loss(found, jnp.asarray(REAL), "batch")
    np.testing.assert_allclose(of_batch, REAL.sum() * numpy_balance(found, REAL), rtol=1e-5)
    rows = [jax.tree.map(lambda x, b=b: x[b : b + 1], found) for b in range(2)]
    want = sum(REAL[b].sum() * numpy_balance(rows[b], REAL[b : b + 1]) for b in range(2))
    np.testing.assert_allclose(routing.balance_loss(found, jnp.asarray(REAL), "sequence"), want, rtol=1e-5)


@pytest.mark.bug("huggingface/transformers#31464", "T035")
@pytest.mark.parametrize("top_k", [1, 2, 4])
@pytest.mark.parametrize("over", ["batch", "sequence"])
def test_a_token_adds_1_where_loads_are_even_and_e_over_k_where_all_go_to_the_same(top_k: int, over: Any):
    """Whatever k is; the same with a router that has no preference."""
    how = ROUTE | {"top_k": top_k}
    turns = 20.0 * jnp.stack([jnp.roll(jnp.arange(E) < top_k, t * top_k) for t in range(E)]).astype(jnp.float32)[None]
    for logits, value in ((turns, 1.0), (jnp.zeros((1, E, E)), 1.0), (turns[:, :1].repeat(E, 1), E / top_k)):
        loss = routing.balance_loss(routing.route(logits, **how), jnp.ones((1, E), bool), over)
        np.testing.assert_allclose(loss / E, value, rtol=1e-4)


@pytest.mark.bug("T035")
def test_its_gradient_moves_the_router_towards_balance():
    """From a router that is partial to one expert, against the gradient until loads are nearly even."""
    x = jnp.asarray(draw(4, 64, 6))
    real = jnp.ones((4, 64), bool)

    def loss(w: jax.Array) -> jax.Array:
        found = routing.route(x @ w[:-1] + w[-1], **ROUTE | {"top_k": 1})
        return routing.balance_loss(found, real, "batch") / real.size

    def largest(w: jax.Array) -> float:
        found = route(x @ w[:-1] + w[-1], **ROUTE | {"top_k": 1})
        return float(routing.largest_load(routing.loads(found.experts_BTK, real, E).sum(0)))

    w = jnp.asarray(draw(7, E, seed=1)) * 0.3 + jnp.zeros((7, E)).at[-1, 2].set(2.0)
    before = largest(w)
    assert before > 4 and jnp.abs(jax.grad(loss)(w)).max() > 1e-3
    step = jax.jit(lambda w: w - 0.5 * jax.grad(loss)(w))
    for _ in range(60):
        w = step(w)
    assert largest(w) < 2.2 < before


def test_the_z_loss_is_the_square_of_the_normaliser():
    want = (np.log(np.exp(np.float64(LOGITS)).sum(-1)) ** 2)[REAL].sum()
    np.testing.assert_allclose(routing.z_loss(jnp.asarray(LOGITS), jnp.asarray(REAL)), want, rtol=1e-5)


def test_the_bias_moves_by_its_speed_against_the_error_of_the_load():
    load = jnp.array([3.0, 5.0, 5.0, 7.0])
    moved = routing.balanced_bias(jnp.array([0.0, 1.0, 2.0, 3.0]), load, 0.25)
    np.testing.assert_allclose(moved, [0.25, 1.0, 2.0, 2.75])


def test_figures_at_their_ends():
    one = jnp.full((2, 5, E), 1 / E)
    real = jnp.ones((2, 5), bool)
    assert routing.entropy(one, real) == pytest.approx(math.log(E))
    assert routing.entropy(jax.nn.one_hot(jnp.zeros((2, 5), int), E), real) == 0.0
    assert routing.largest_load(jnp.full(E, 3.0)) == 1.0
    assert routing.largest_load(jnp.zeros(E).at[:2].set(5.0)) == E / 2
