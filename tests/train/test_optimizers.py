"""How weights move: directions by hand in NumPy, decay, clipping, and groups chosen by path."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from txjax.config import Config, Group, Layer, Model, Optim, layerwise
from txjax.config.optim import UNDECAYED
from txjax.models import Decoder
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.parameters import path_name
from txjax.schema import ConfigError
from txjax.train.optimizers import SGD, AdamW, Muon, describe_groups, groups_of, is_axes, scales_of, update

SIZES: dict[str, Any] = {"width": 8, "vocab_size": 5, "context": 4}
STACKED = Model(num_layers=3, **SIZES)
UNROLLED = replace(STACKED, first_layers=(Layer(), Layer()))  # the same three layers, each by itself


def draw(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def steps(optim: Optim, parameters: Any, gradients: list[Any], axes: Any = None, model: Model = STACKED) -> list[Any]:
    """The parameters after each gradient, at the full learning rate."""
    direction, scales = optim.optimizer.direction(axes), scales_of(optim, model, parameters)
    rate, decay = jnp.float32(optim.learning_rate), jnp.float32(optim.weight_decay)

    @partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def step(parameters: Any, state: Any, g: Any) -> Any:
        change, state = update(optim, direction, scales, g, state, parameters, rate, decay, optax.tree.norm(g))
        return jax.tree.map(jnp.add, parameters, change), state

    state, after = direction.init(parameters), []
    for g in gradients:
        parameters, state = step(parameters, state, g)
        after.append(parameters)
    return after


# Directions


def test_adamw_is_the_papers_with_decay_apart():
    w0, g = (
        np.array([1.0, -2.0, 0.5]),
        [np.array([0.3, -1.0, 1e-4]), np.array([-0.2, 2.0, 0.0]), np.array([1.0, 1.0, 1])],
    )
    rate, decay, (b1, b2), eps = 0.1, 0.3, (0.8, 0.9), 1e-3
    w, m, v = w0.copy(), np.zeros(3), np.zeros(3)
    optim = Optim(rate, AdamW((b1, b2), eps), weight_decay=decay, clip=None, groups=())
    ours = steps(optim, {"w": jnp.asarray(w0, jnp.float32)}, [{"w": jnp.asarray(x, jnp.float32)} for x in g])
    for t, (gradient, found) in enumerate(zip(g, ours, strict=True), start=1):
        m, v = b1 * m + (1 - b1) * gradient, b2 * v + (1 - b2) * gradient**2
        direction = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + eps)
        w = w - rate * (direction + decay * w)
        np.testing.assert_allclose(found["w"], w, rtol=2e-6)


@pytest.mark.bug("google-deepmind/optax#494")
def test_without_gradients_adamw_decays_by_rate_times_decay_alone():
    w, count = draw(50), 20
    optim = Optim(learning_rate=0.1, weight_decay=0.5, groups=())
    last = steps(optim, {"w": w}, [{"w": jnp.zeros(50)}] * count)[-1]["w"]
    np.testing.assert_allclose(last, np.asarray(w, np.float64) * (1 - 0.1 * 0.5) ** count, rtol=5e-6)


@pytest.mark.bug("google-deepmind/optax#494")
def test_decay_is_no_part_of_the_gradient_that_adam_scales():
    g = {"w": draw(6, seed=1)}
    plain, decayed = (
        steps(Optim(0.1, weight_decay=decay, clip=None, groups=()), {"w": draw(6)}, [g])[-1]["w"]
        for decay in (0.0, 0.7)
    )
    np.testing.assert_allclose(plain - decayed, 0.1 * 0.7 * draw(6), atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_with_momentum_sums_gradients(nesterov: bool):
    g = [{"w": draw(4, seed=i)} for i in range(3)]
    optim = Optim(0.1, SGD(0.9, nesterov), weight_decay=0.0, clip=None, groups=())
    w, total = np.asarray(draw(4, seed=9), np.float64), np.zeros(4)
    for gradient, found in zip(g, steps(optim, {"w": draw(4, seed=9)}, g), strict=True):
        gradient = np.asarray(gradient["w"], np.float64)
        total = 0.9 * total + gradient
        w = w - 0.1 * (gradient + 0.9 * total if nesterov else total)
        np.testing.assert_allclose(found["w"], w, rtol=1e-5, atol=1e-6)


def test_sgd_without_momentum_keeps_nothing():
    assert jax.tree.leaves(SGD().direction(None).init({"w": draw(3)})) == []


AXES = {
    "layers": {
        "block_0": {
            "attention": {
                "query": {"w": ("layers", "embed", "heads", "head_dim"), "b": ("layers", "heads", "head_dim")},
                "out": {"w": ("layers", "heads", "head_dim", "embed")},
            },
            "norm": {"gain": ("layers", "embed")},
        }
    },
    "embedding": {"w": ("vocab", "embed")},
}
SHAPES = {"layers": 3, "embed": 6, "heads": 2, "head_dim": 2, "vocab": 5}


def arrays_of(axes: Any, seed: int) -> Any:
    return jax.tree.map(lambda a: draw(*[SHAPES[name] for name in a], seed=seed), axes, is_leaf=is_axes)


def test_muon_treats_each_stacked_layer_as_if_it_were_alone():
    stacked, *gradients = (arrays_of(AXES, seed) for seed in range(3))
    optim = Optim(0.1, Muon(), weight_decay=0.0, clip=None, groups=())
    together = steps(optim, stacked, gradients, AXES)[-1]["layers"]

    def layer(n: int, tree: Any) -> Any:
        return {"first_0": jax.tree.map(lambda x: x[n], tree["layers"]["block_0"])}

    axes = {"first_0": jax.tree.map(lambda a: a[1:], AXES["layers"]["block_0"], is_leaf=is_axes)}
    for n in range(3):
        alone = steps(optim, layer(n, stacked), [layer(n, g) for g in gradients], axes)[-1]["first_0"]
        for got, want in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(got[n], want, atol=2e-5)


def test_muon_makes_the_matrices_of_layers_orthogonal_and_leaves_the_rest_to_adam():
    start, *gradients = (arrays_of(AXES, seed) for seed in range(3))
    how: Any = {"weight_decay": 0.0, "clip": None, "groups": ()}
    muon, adam = (steps(Optim(1.0, kind, **how), start, gradients, AXES) for kind in (Muon(rms=0.2), AdamW()))
    for got, want in zip(muon, adam, strict=True):
        np.testing.assert_allclose(got["embedding"]["w"], want["embedding"]["w"], atol=1e-6)
        block, adams = got["layers"]["block_0"], want["layers"]["block_0"]
        np.testing.assert_allclose(block["norm"]["gain"], adams["norm"]["gain"], atol=1e-6)
        np.testing.assert_allclose(block["attention"]["query"]["b"], adams["attention"]["query"]["b"], atol=1e-6)

    def matrix(tree: Any) -> np.ndarray:
        return np.asarray(tree["layers"]["block_0"]["attention"]["query"]["w"]).reshape(3, 6, 4)

    change = matrix(muon[0]) - matrix(start)
    np.testing.assert_allclose((change**2).mean((1, 2)) ** 0.5, 0.2, rtol=0.2)
    own, of_gradient = np.linalg.svd(change)[1], np.linalg.svd(matrix(gradients[0]))[1]
    assert (own.max(1) / own.min(1) < 2).all()  # five Newton-Schulz steps come this close to 1
    assert (of_gradient.max(1) / of_gradient.min(1) > 2).any()
    assert ((change * matrix(gradients[0])).sum((1, 2)) < 0).all()  # downhill


# Clipping


@pytest.mark.bug("paiml/aprender#2112", "ml-explore/mlx-lm#1658", "ml-explore/mlx-lm#1659", "apple/axlearn#297")
def test_the_norm_of_all_gradients_together_is_clipped():
    w, g = ({"a": draw(3, 4, seed=s), "b": draw(5, seed=s + 1)} for s in (0, 7))
    optim = Optim(learning_rate=0.5, optimizer=SGD(), weight_decay=0.0, clip=0.3, groups=())
    for size in (1.0, 100.0):
        scaled = jax.tree.map(lambda x, s=size: s * x, g)
        (after,) = steps(optim, w, [scaled])
        change = jax.tree.map(jnp.subtract, w, after)
        np.testing.assert_allclose(optax.tree.norm(change), 0.5 * 0.3, rtol=1e-4)
        share = jax.tree.map(lambda c, x: c / x, change, g)
        assert np.ptp(np.concatenate([np.ravel(s) for s in jax.tree.leaves(share)])) < 1e-3  # one factor for all
    small = jax.tree.map(lambda x: 0.01 * x, g)
    (after,) = steps(optim, w, [small])
    for got, want, x in zip(*map(jax.tree.leaves, (after, w, small)), strict=True):
        np.testing.assert_allclose(got, want - 0.5 * x, atol=1e-6)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(steps(optim, w, [jax.tree.map(jnp.zeros_like, g)])))


# Groups


def by_path(config: Optim, model: Model) -> dict[str, tuple[Group, ...]]:
    leaves = jax.tree_util.tree_leaves_with_path(Decoder(model).shapes())
    return {path_name(path): groups_of(config, model, path) for path, _ in leaves}


def test_norms_biases_and_embeddings_are_not_decayed_unless_asked():
    decayed = {name for name, groups in by_path(Optim(), STACKED).items() if any(g.weight_decay for g in groups)}
    block = "layers/block_0/"
    assert decayed == {
        *(f"{block}attention/{name}/w" for name in ("query", "key", "value", "out")),
        *(f"{block}dense/{name}/w" for name in ("in", "out")),
    }
    assert all(g.weight_decay == 1 for groups in by_path(Optim(groups=()), STACKED).values() for g in groups)


def test_groups_survive_stacking_and_the_first_match_counts():
    config = Optim(groups=(Group("attention/query", 0.1), Group("attention", 0.5, 0.0), Group("/w$", 2.0)))
    stacked, unrolled = by_path(config, STACKED), by_path(config, UNROLLED)
    for name, rate in (("attention/query/b", 0.1), ("attention/key/w", 0.5), ("dense/in/w", 2.0), ("dense/in/b", 1.0)):
        assert [group.learning_rate for group in stacked[f"layers/block_0/{name}"]] == [rate] * 3
    for name, groups in unrolled.items():
        assert {*groups} == {*stacked[name.replace("first_0", "layers/block_0").replace("first_1", "layers/block_0")]}


ONE_LAYER = (Group("norm", 1.0, 0.0, layers=(0, 2)), Group("", 0.0, layers=(0,)), Group("query", 0.5, layers=(2,)))


@pytest.mark.parametrize("groups", [ONE_LAYER, layerwise(0.5, 3)], ids=["some", "layerwise"])
def test_a_layer_moves_as_its_groups_say_whether_it_is_stacked_or_not(groups: tuple[Group, ...]):
    """The unrolled model has two first layers and a stack of one: there a group is of whole leaves."""
    optim = Optim(0.1, SGD(), weight_decay=0.3, clip=None, groups=groups)

    def unstacked(tree: Any) -> Any:
        block = tree["layers"]["block_0"]
        first = {f"first_{n}": jax.tree.map(lambda x: x[n], block) for n in (0, 1)}  # noqa: B023
        return tree | first | {"layers": {"block_0": jax.tree.map(lambda x: x[2:], block)}}

    w, g = (jax.tree.map(lambda x: draw(*x.shape, seed=seed), Decoder(STACKED).shapes()) for seed in (0, 1))  # noqa: B023
    (stacked,), (alone,) = steps(optim, w, [g]), steps(optim, unstacked(w), [unstacked(g)], model=UNROLLED)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-6), unstacked(stacked), alone)


def test_a_group_of_some_layers_is_for_no_other():
    model = Model(num_layers=4, pattern=(Layer(), Layer()), **SIZES)
    w, g = (jax.tree.map(lambda x: draw(*x.shape, seed=seed), Decoder(model).shapes()) for seed in (0, 1))  # noqa: B023
    w["layers"], g["layers"] = dict(w["layers"]), jax.tree.map(lambda x: x.at[1].set(jnp.nan), g["layers"])
    g["layers"]["block_0"] = jax.tree.map(lambda x: x[::-1], g["layers"]["block_0"])  # nan in layers 0 and 3: frozen
    optim = Optim(0.1, SGD(), weight_decay=0.0, clip=None, groups=(Group("", 0.0, layers=(0, 3)), Group("", 0.5)))
    (after,) = steps(optim, w, [g], model=model)
    for block, rates in (("block_0", (0.0, 0.05)), ("block_1", (0.05, 0.0))):  # layers 0 and 2, layers 1 and 3
        for path, (got, had, slope) in leaves_of(*(tree["layers"][block] for tree in (after, w, g))):
            for period, rate in enumerate(rates):
                want = had[period] - rate * slope[period] if rate else had[period]
                np.testing.assert_allclose(got[period], want, rtol=1e-5, atol=1e-6, err_msg=path)
    want = w["embedding"]["w"] - 0.05 * g["embedding"]["w"]
    np.testing.assert_allclose(after["embedding"]["w"], want, rtol=1e-5, atol=1e-6)


def leaves_of(*trees: Any) -> list[tuple[str, tuple[Any, ...]]]:
    paths = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(trees[0])]
    return list(zip(paths, zip(*map(jax.tree.leaves, trees), strict=True), strict=True))


def test_each_layer_takes_a_part_of_the_next_ones_rate():
    own_width = replace(STACKED, embedding=Tokens(width=4), embedding_norm=True)
    found = by_path(Optim(groups=layerwise(0.5, 3)), own_width)
    scales = {name: [(g.learning_rate, g.weight_decay) for g in groups] for name, groups in found.items()}
    assert scales["layers/block_0/dense/in/w"] == [(0.25, 1.0), (0.5, 1.0), (1.0, 1.0)]
    assert scales["layers/block_0/dense/in/b"] == [(0.25, 0.0), (0.5, 0.0), (1.0, 0.0)]
    before = ("embedding/w", "position/table", "embedding_norm/gain", "embedding_projection/b")
    assert [scales[name] for name in before] == [[(0.125, 0.0)]] * 4
    assert scales["embedding_projection/w"] == [(0.125, 1.0)]
    assert scales["final_norm/gain"] == [(1.0, 0.0)]


def test_each_group_is_described_with_its_rate_decay_size_and_members():
    model = Model(num_layers=2, **SIZES)
    shapes = Decoder(model).shapes()
    config = Optim(
        learning_rate=1e-3,
        weight_decay=0.1,
        groups=(Group("embedding", 0.0), Group("norm", 1.0, 0.0), Group("nothing")),
    )
    lines = describe_groups(config, model, shapes)
    # sorted as the tree is: embedding, final_norm, layers, position
    assert lines[0] == "rate 0, weight decay 0.1: 40 parameters, match 'embedding': embedding/w"
    assert lines[1].startswith(
        "rate 0.001, weight decay 0: 80 parameters, match 'norm': final_norm/bias, final_norm/gain, "
    )
    assert lines[1].endswith(" and 2 more")
    assert "all others: layers/block_0/attention/key/b" in lines[2] and len(lines) == 3
    counts = [int(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in lines]
    assert sum(counts) == sum(x.size for x in jax.tree.leaves(shapes))
    lines = describe_groups(Optim(weight_decay=0.0, groups=(Group("query/w", 0.5, layers=(1,)),)), model, shapes)
    assert lines[1] == (
        "rate 0.0005, weight decay 0: 64 parameters, match 'query/w' in layer 1: layers/block_0/attention/query/w"
    )


def test_groups_scale_rate_and_decay_and_a_rate_of_zero_freezes_whatever_comes():
    w, g = ({name: draw(4, seed=s) for name in ("frozen", "slow", "plain", "free")} for s in (0, 1))
    g["frozen"] = jnp.full(4, jnp.nan)
    groups = (Group("frozen", 0.0), Group("slow", 0.5), Group("free", 1.0, 0.0))
    optim = Optim(0.1, SGD(), weight_decay=0.2, clip=None, groups=groups)
    (after,) = steps(optim, w, [g])
    np.testing.assert_array_equal(after["frozen"], w["frozen"])
    for name, rate, decay in (("slow", 0.05, 0.2), ("plain", 0.1, 0.2), ("free", 0.1, 0.0)):
        np.testing.assert_allclose(after[name], w[name] - rate * (g[name] + decay * w[name]), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Group("("), "regular expression, got '\\('"),
        (lambda: Group("", layers=(0, -1)), r"layers must be numbers from 0, or none, got \(0, -1\)"),
        (lambda: layerwise(1.5, 3), "decay must be above 0 and at most 1, got 1.5"),
        (
            lambda: Config(model=STACKED, optim=Optim(groups=(UNDECAYED, Group("", layers=(2, 3, 5))))),
            r"optim.groups\[1\].layers: the model has no layer 3, 5, only 0 to 2",
        ),
        (lambda: AdamW((0.9, 1.0)), "betas must be in"),
        (lambda: SGD(1.0), "momentum must be in"),
        (lambda: Optim(clip=0.0), "clip must be positive or none"),
        (lambda: Optim(learning_rate=-1.0), "learning_rate must not be negative"),
    ],
)
def test_what_is_no_optimizer_is_refused(make: Any, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        make()
