"""A mixture of experts in a model: against transformers, against one dense network, and while it trains."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from txjax.batch import Batch
from txjax.cli.inspect import report
from txjax.config import Attention, Config, Dense, Layer, Mesh, Mixture, Model, Optim, Rope, Train
from txjax.models import Decoder, costs
from txjax.nn.context import KEPT, Context
from txjax.parallel import make_layout
from txjax.schema import ConfigError
from txjax.train.optimizers import AdamW, Muon
from txjax.train.state import State, hyper, initial_state
from txjax.train.step import make_train_step

TESTS = Path(__file__).parents[1]
V, T, ROWS = 128, 16, 8
MODEL = Model(
    width=8,
    num_layers=2,
    vocab_size=V,
    context=T,
    position=Rope(),
    attention=Attention(num_heads=2),
    feedforward=Mixture(num_experts=4, hidden=12),
)


def with_mixture(model: Model = MODEL, **fields: Any) -> Model:
    return replace(model, feedforward=replace(model.feedforward, **fields))


def through(mixture: Mixture, params: Any, x: Any, *, train: bool = False, dtype: Any = "float32") -> tuple[Any, Any]:
    """The sublayer's output of x (B, T, D), and what it keeps beside it."""
    model = Model(width=x.shape[-1], feedforward=mixture, dtype=dtype)
    context = Context(Decoder(model).knobs(), train=train, capture=("router_logits", "chosen_experts"))
    return mixture.module(model, "mixture").apply({"params": params}, x, context, mutable=list(KEPT))


# Against transformers: tests/golden/make_moe.py


def imported(golden: dict[str, np.ndarray]) -> dict[str, Any]:
    """The parameters of a block by our names."""
    pair = golden["block.experts.gate_up_proj"].swapaxes(1, 2)
    gate, inward = np.split(pair, 2, axis=-1)
    out = golden["block.experts.down_proj"].swapaxes(1, 2)
    params: dict[str, Any] = {"in": {"w": inward}, "gate": {"w": gate}, "out": {"w": out}}
    params["router"] = {"w": golden["block.gate.weight"].T}
    if "block.gate.e_score_correction_bias" in golden:
        params["bias"] = golden["block.gate.e_score_correction_bias"]
        shared = {"in": "up_proj", "gate": "gate_proj", "out": "down_proj"}
        params["shared"] = {n: {"w": golden[f"block.shared_experts.{m}.weight"].T} for n, m in shared.items()}
    return params


PLAIN: dict[str, Any] = {"hidden": 12, "activation": "swiglu", "bias": False}
GOLDEN = {
    "mixtral": Mixture(6, 2, **PLAIN, gate="softmax_chosen"),
    "deepseek_v3": Mixture(
        12, 4, **PLAIN, num_shared=2, gate="sigmoid", routed_scale=2.5, num_groups=4, top_groups=2, bias_speed=0.0
    ),
}


@pytest.mark.bug("lablup/mlxcel#391", "Lightning-AI/litgpt#2013")
@pytest.mark.parametrize("name", GOLDEN)
def test_it_is_the_mixture_of_transformers(name: str):
    golden = load_file(TESTS / "golden" / f"moe_{name}.safetensors")

    def total(x: jax.Array, params: Any) -> tuple[jax.Array, Any]:
        y, kept = through(GOLDEN[name], params, x)
        return (y * golden["towards"]).sum(), (y, kept)

    by, (y, kept) = jax.jit(jax.grad(total, (0, 1), has_aux=True))(golden["x"], imported(golden))
    np.testing.assert_allclose(y, golden["y"], rtol=1e-5, atol=1e-5)
    (chosen,) = kept["captured"]["chosen_experts"]
    assert np.array_equal(np.sort(chosen), np.sort(golden["experts"]))
    np.testing.assert_allclose(by[0], golden["dx"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by[1]["router"]["w"].T, golden["d_router"], rtol=1e-4, atol=1e-5)


# Against the dense network


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_one_expert_is_the_dense_network(activation: Any):
    one = Mixture(num_experts=1, top_k=1, hidden=12, activation=activation)
    dense = one.expert
    model = Model(width=8)
    shapes = jax.eval_shape(
        lambda: dense.module(model, "dense").init(
            jax.random.key(0), jnp.ones((1, 1, 8)), Context(Decoder(model).knobs())
        )
    )["params"]
    random = np.random.default_rng(0)
    params = jax.tree.map(lambda p: random.standard_normal(p.shape, np.float32), shapes)
    params = {
        name: {leaf: value.value if hasattr(value, "value") else value for leaf, value in own.items()}
        for name, own in params.items()
    }
    stacked = jax.tree.map(lambda w: w[None], params) | {"router": {"w": random.standard_normal((8, 1), np.float32)}}
    x = jnp.asarray(random.standard_normal((2, 5, 8)), jnp.float32)

    def of_dense(x: Any, params: Any) -> Any:
        y = dense.module(model, "dense").apply({"params": params}, x, Context(Decoder(model).knobs()))
        return (y**2).sum(), y

    def of_mixture(x: Any, params: Any) -> Any:
        y, _ = through(one, params, x)
        return (y**2).sum(), y

    want, y_dense = jax.grad(of_dense, (0, 1), has_aux=True)(x, params)
    got, y = jax.grad(of_mixture, (0, 1), has_aux=True)(x, stacked)
    np.testing.assert_allclose(y, y_dense, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-4)
    for name, own in want[1].items():
        for leaf, value in own.items():
            np.testing.assert_allclose(got[1][name][leaf][0], value, rtol=1e-4, atol=1e-4)


def test_products_and_active_parameters_are_those_of_as_many_experts_as_a_token_uses():
    mixed = with_mixture(num_experts=8, top_k=3, hidden=12, bias=False, activation="swiglu")
    dense = replace(MODEL, feedforward=Dense(hidden=3 * 12, bias=False, activation="swiglu"))
    router = MODEL.num_layers * MODEL.width * 8
    of_mixed, of_dense = Decoder(mixed), Decoder(dense)
    assert costs.forward_flops(of_mixed, 2, T) == costs.forward_flops(of_dense, 2, T) + 2 * 2 * T * router
    count = costs.count_parameters(of_dense.shapes())
    assert costs.active_parameters(of_mixed, mixed) == count + router
    assert costs.active_parameters(of_dense, dense) == count
    assert costs.count_parameters(of_mixed.shapes()) == count + router + MODEL.num_layers * 5 * 3 * 8 * 12
    rows = dict(zip(*(column.cells for column in report(Config(model=mixed))[0].columns), strict=True))  # type: ignore[attr-defined]
    assert rows["active: used by one token"] == f"{count + router:,}"
    assert not any("active" in str(cell) for cell in report(Config(model=dense))[0].columns[0].cells)  # type: ignore[attr-defined]


def test_products_of_a_split_mixture_count_on_all_devices():
    mixed = with_mixture(num_experts=8)
    want = costs.forward_flops(Decoder(mixed), 4, T)
    with make_layout(Mesh(data=2, fsdp=2, tensor=2)).scope():
        assert costs.forward_flops(Decoder(mixed), 4, T) == want


@pytest.mark.bug("google/flax#2665", "T119")
def test_experts_start_differently():
    own = Decoder(MODEL).init(jax.random.key(0))["layers"]["block_0"]["mixture"]
    for name in ("in", "out"):
        w_ME = np.asarray(own[name]["w"]).reshape(2 * 4, -1)
        assert np.abs(np.corrcoef(w_ME) - np.eye(8)).max() < 0.5


# The router


@pytest.mark.bug("pytorch/torchtitan#1448", "databricks/megablocks#87", "NVIDIA/Megatron-LM#955")
@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
def test_the_router_learns_from_the_task_with_one_expert_a_token_too(gate: Any):
    mixture = replace(MODEL.feedforward, top_k=1, gate=gate, renormalise=False, balance=0.0)  # type: ignore[type-var]
    params = Decoder(replace(MODEL, feedforward=mixture)).init(jax.random.key(0))["layers"]["block_0"]["mixture"]
    one = jax.tree.map(lambda leaf: leaf[0], params)
    x = np.random.default_rng(0).standard_normal((2, 5, 8), np.float32)
    gradient = jax.grad(lambda params: through(mixture, params, x)[0].sum())(one)
    assert (np.abs(gradient["router"]["w"]) > 0).all()


@pytest.mark.bug("NVIDIA/Megatron-LM#1593", "T122")
def test_the_router_is_float32_in_a_bfloat16_model():
    random = np.random.default_rng(0)
    params = jax.tree.map(
        lambda p: random.standard_normal(p.shape[1:], np.float32),
        Decoder(MODEL).shapes()["layers"]["block_0"]["mixture"],
    )
    x = jnp.asarray(random.standard_normal((2, 5, 8)), jnp.bfloat16)
    y, kept = through(MODEL.feedforward, params, x, dtype="bfloat16")  # type: ignore[arg-type]
    (logits,) = kept["captured"]["router_logits"]
    assert (y.dtype, logits.dtype) == (jnp.bfloat16, jnp.float32)
    np.testing.assert_allclose(logits, np.float64(x) @ np.float64(params["router"]["w"]), rtol=1e-5, atol=1e-5)


def test_bfloat16_is_near_float32_where_it_chooses_the_same_experts():
    """And it does but for a few tokens near a tie."""
    random = np.random.default_rng(0)
    mixture = replace(MODEL.feedforward, num_shared=1)  # type: ignore[type-var]
    shapes = Decoder(replace(MODEL, feedforward=mixture)).shapes()["layers"]["block_0"]["mixture"]
    params = jax.tree.map(lambda p: jnp.asarray(0.3 * random.standard_normal(p.shape[1:]), jnp.float32), shapes)
    x = jnp.asarray(random.standard_normal((4, 64, 8)), jnp.bfloat16)
    (narrow, kept), (wide, exact) = (
        through(mixture, params, x.astype(dtype), dtype=dtype) for dtype in ("bfloat16", "float32")
    )
    same = (kept["captured"]["chosen_experts"][0] == exact["captured"]["chosen_experts"][0]).all(-1)
    assert same.mean() > 0.95
    off = np.linalg.norm(np.float32(narrow)[same] - wide[same]) / np.linalg.norm(wide[same])
    assert 1e-4 < off < 0.02


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"top_k": 1}, "top_k=1 makes every weight 1"),
        ({"top_k": 1, "renormalise": False, "gate": "softmax_chosen"}, "top_k=1 makes every weight 1"),
        ({"top_k": 9}, "top_k must be from 1 to num_experts=8, got 9"),
        ({"num_experts": 0}, "num_experts must be at least 1, got 0"),
        ({"num_groups": 3}, "num_groups must divide num_experts=8, got 3"),
        ({"num_groups": 2, "top_groups": 3}, "top_groups must be from 1 to num_groups=2, got 3"),
        ({"num_groups": 4, "top_groups": 1, "top_k": 3}, "top_k=3 is more than the 2 experts of top_groups=1"),
        ({"num_groups": 8, "top_groups": 4}, "group_best must be from 1 to the 1 experts of a group, got 2"),
        ({"capacity_factor": 0.0}, "capacity_factor must be positive"),
        ({"balance": -1.0}, "balance must not be negative"),
        ({"num_shared": -1}, "num_shared must not be negative"),
        ({"hidden": 0}, "hidden must be at least 1 or none"),
    ],
)
@pytest.mark.bug("databricks/megablocks#87")
def test_what_cannot_be_is_refused(fields: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        Mixture(**fields)


# Padding and capacity in a model

TOKENS = np.random.default_rng(1).integers(0, V, (4, 10)).astype(np.int32)
LENGTHS = np.array([10, 3, 7, 0])[:, None]
REAL = np.arange(10) < LENGTHS


@cache
def parameters(model: Model) -> Any:
    """Weights large enough that routers disagree."""
    return jax.tree.map(lambda w: 5 * w if w.ndim > 2 else w, Decoder(model).init(jax.random.key(2)))


@pytest.mark.bug("huggingface/transformers#28505", "NVIDIA/Megatron-LM#1984", "pytorch/torchtitan#4594", "T034")
@pytest.mark.parametrize("dispatch", ["dropless", "capacity"])
def test_padding_changes_neither_logits_losses_figures_updates_nor_gradients(dispatch: Any):
    """Between none of it and 30 tokens, whatever they are."""
    model = with_mixture(
        dispatch=dispatch, capacity_factor=0.8, z_loss=0.01, bias_speed=0.1, num_shared=1, gate="sigmoid"
    )

    def trained(tokens: np.ndarray, real: np.ndarray) -> Any:
        batch = Batch(tokens=tokens, segments=real.astype(np.int32))

        def loss(params: Any) -> Any:
            outputs = Decoder(model).apply(params, batch, key=jax.random.key(0))
            logits = outputs.logits[:, :10] * REAL[..., None]
            seen = (logits, outputs.aux, outputs.figures, outputs.updates)
            return (logits**2).sum() + sum(outputs.aux.values()), seen

        return jax.jit(jax.grad(loss, has_aux=True))(parameters(model))

    want = trained(TOKENS, REAL)
    junk = np.concatenate([np.where(REAL, TOKENS, V - 1), np.full((4, 30), 5, np.int32)], axis=1)
    got = trained(junk, np.pad(REAL, [(0, 0), (0, 30)]))
    assert set(want[1][2]) == {"dropped", "largest_load", "router_entropy"}
    assert (want[1][2]["dropped"] > 0) == (dispatch == "capacity")
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


@pytest.mark.bug("AI-Hypercomputer/maxtext#833", "T109")
def test_a_capacity_holds_in_training_alone_and_what_it_drops_is_counted():
    dropless, tight = with_mixture(), with_mixture(dispatch="capacity", capacity_factor=0.5)
    params, batch = parameters(MODEL), Batch(tokens=TOKENS)
    (free, _), (evaluated, trained) = (
        [Decoder(model).apply(params, batch, key=key) for key in (None, jax.random.key(0))]
        for model in (dropless, tight)
    )
    assert np.array_equal(free.logits, evaluated.logits)
    assert (free.figures["dropped"], evaluated.figures["dropped"]) == (0, 0)
    assert 0.3 < trained.figures["dropped"] <= 0.5 + 0.1 and not np.allclose(trained.logits, free.logits)


# Training


def config(model: Model, **fields: Any) -> Config:
    optim = Optim(learning_rate=3e-3, optimizer=AdamW(eps=1e-6))
    return Config(**{"model": model, "optim": optim, "train": Train(steps=60, batch_size=ROWS)} | fields)


def text(step: int) -> Batch:
    """Rows of the license, a text that no change of the project touches, as bytes."""
    page = (TESTS.parent / "LICENSE").read_bytes()
    starts = np.random.default_rng(step).integers(0, len(page) - T - 1, ROWS)
    ids = np.array([list(page[s : s + T + 1]) for s in starts], np.int32) % V
    return Batch(tokens=ids[:, :-1], targets=ids[:, 1:])


def train(settings: Config, steps: int, params: Any = None) -> tuple[State, list[Any]]:
    model = Decoder(settings.model)
    state, numbers = initial_state(settings, model, params), hyper(settings, model)
    step, seen = jax.jit(make_train_step(model, settings)), []
    for number in range(steps):
        state, metrics = step(state, text(number), numbers)
        seen.append(jax.device_get(metrics))
    return state, seen


def skewed(model: Model) -> Any:
    """Parameters whose routers tell tokens apart and yet send nearly all of them to the first expert."""
    params = Decoder(model).init(jax.random.key(0))
    block = params["layers"]["block_0"]
    block["feedforward_norm"]["bias"] += 1.0
    block["mixture"]["router"]["w"] = (20 * block["mixture"]["router"]["w"]).at[..., 0].add(0.5)
    return params


def test_a_bias_evens_out_a_skewed_router_and_neither_learns_nor_decays():
    speed = 0.03
    model = with_mixture(
        replace(MODEL, num_layers=1), gate="sigmoid", balance=0.0, bias_speed=speed, top_k=1, renormalise=False
    )
    settings = config(model, optim=Optim(learning_rate=1e-3, weight_decay=10.0))
    state, seen = train(settings, 40, skewed(model))
    loads = [metrics.more["largest_load"] for metrics in seen]
    assert loads[0] > 3.5 and np.mean(loads[-10:]) < 2.5  # a character that is a sixth of the text goes one way
    bias = np.asarray(state.params["layers"]["block_0"]["mixture"]["bias"])
    assert bias[0, 0] == bias.min() < bias.max() - 6 * speed  # differences alone count in the choice
    np.testing.assert_allclose(bias / speed, np.round(bias / speed), atol=1e-3)  # steps of its own, and nothing else
    moments = [
        leaf
        for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state)
        if "'bias'" in str(path[-1]) and "mixture" in str(path)
    ]
    assert len(moments) == 2 and not any(np.any(leaf) for leaf in moments)


def test_the_balance_loss_evens_out_a_skewed_router():
    model = with_mixture(replace(MODEL, num_layers=1), balance=1.0, top_k=1, renormalise=False)
    settings = config(model, optim=Optim(learning_rate=1e-2))
    _, seen = train(settings, 40, skewed(model))
    assert seen[0].more["largest_load"] > 3.5 and np.mean([m.more["largest_load"] for m in seen[-5:]]) < 2.0
    # 1 where loads are even; less where the loads of a batch happen to lie against the mean probabilities
    assert abs(seen[-1].more["balance_loss"] - 1) < 0.2 < seen[0].more["balance_loss"] - 1


LINEAR = {"dispatch": "capacity", "capacity_factor": 1.0, "balance_over": "sequence", "z_loss": 0.001, "num_shared": 1}


def test_accumulation_changes_nothing_where_losses_are_sums_over_sequences():
    """The task's loss, the z-loss, the balance over sequences and the capacity, over 60 steps on text."""
    runs = [
        train(config(with_mixture(**LINEAR), train=Train(steps=60, batch_size=ROWS, accumulation=n)), 60)[1]
        for n in (1, 2)
    ]
    whole, cut = ([(m.loss, *sorted_values(m.more)) for m in run] for run in runs)
    np.testing.assert_allclose(cut[:20], whole[:20], rtol=1e-4)
    # a tie that rounding decides the other way is another expert: later the shares of dropped choices go apart
    np.testing.assert_allclose(np.delete(cut, 3, 1), np.delete(whole, 3, 1), rtol=0.02)
    losses = [row[0] for row in whole]
    assert losses[0] > 4.8 and np.mean(losses[-10:]) < 3.6


def sorted_values(more: dict[str, Any]) -> list[float]:
    """Losses of layers, and the share of dropped choices; the largest load is not a mean over micro-batches."""
    return [float(more[name]) for name in ("balance_loss", "z_loss", "dropped", "router_entropy")]


def test_the_balance_over_a_batch_is_that_of_each_micro_batch():
    """It is not a sum over sequences: two halves may each be uneven where the whole is even."""
    (whole,), (cut,) = (
        train(config(with_mixture(balance=1.0), train=Train(batch_size=ROWS, accumulation=n)), 1)[1] for n in (1, 2)
    )
    assert abs(cut.more["balance_loss"] / whole.more["balance_loss"] - 1) > 1e-5
    task = [m.loss - m.more["balance_loss"] for m in (whole, cut)]
    np.testing.assert_allclose(task[1], task[0], rtol=1e-6)


@pytest.mark.parametrize("dispatch", ["capacity", "dropless"])
def test_a_step_on_eight_devices_is_that_of_one(dispatch: Any):
    model = with_mixture(**LINEAR | {"dispatch": dispatch, "bias_speed": 0.1, "capacity_factor": 0.7})
    settings = config(model, optim=Optim(learning_rate=1e-3, optimizer=AdamW(eps=1e-3)))
    decoder, batch = (
        Decoder(model),
        replace(text(0), segments=(np.arange(T) < np.arange(9, 17)[:, None]).astype(np.int32)),
    )
    step = make_train_step(decoder, settings)
    start, numbers = initial_state(settings, decoder), hyper(settings, decoder)
    want, metrics = jax.jit(step)(start, batch, numbers)
    layout = make_layout(Mesh(data=2, fsdp=2, tensor=2))
    with layout.scope():
        everywhere = layout.replicated()
        places = layout.parameters(decoder.axes(), decoder.shapes())
        spread = replace(jax.device_put(start, everywhere), params=jax.device_put(start.params, places))
        got, seen = jax.jit(step)(spread, jax.device_put(batch, layout.batch()), jax.device_put(numbers, everywhere))
    np.testing.assert_allclose(seen.loss, metrics.loss, rtol=1e-5)
    for name, value in metrics.more.items():
        np.testing.assert_allclose(seen.more[name], value, rtol=1e-5, err_msg=name)
    for one, other in zip(jax.tree.leaves(got.params), jax.tree.leaves(want.params), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-6)


def test_muon_makes_each_expert_orthogonal_by_itself():
    sides = partial(jax.tree.map, lambda axes: axes, is_leaf=lambda leaf: isinstance(leaf, tuple))
    decoder = Decoder(MODEL)
    direction = Muon().direction(sides(decoder.axes()))
    gradients = jax.tree.map(lambda s: np.random.default_rng(0).standard_normal(s.shape, np.float32), decoder.shapes())
    params = jax.tree.map(jnp.zeros_like, gradients)
    moved, _ = jax.jit(direction.update)(gradients, direction.init(params), params)
    w_EDF = np.asarray(moved["layers"]["block_0"]["mixture"]["in"]["w"])[0]
    for w_DF in w_EDF:
        singular = np.linalg.svd(w_DF, compute_uv=False)
        assert singular.max() / singular.min() < 2.5  # of a random matrix it is 8 or more


def test_first_layers_may_be_dense():
    first = (Layer(feedforward=Dense(hidden=24)),)
    params = Decoder(replace(MODEL, num_layers=3, first_layers=first)).shapes()
    assert "dense" in params["first_0"] and "mixture" in params["layers"]["block_0"]
