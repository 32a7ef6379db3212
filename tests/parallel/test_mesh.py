"""Meshes and rules: what is laid out where, and what cannot be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import pytest
from jax.sharding import PartitionSpec

from txjax.config import Attention, Config, Mesh, Model, Train
from txjax.models import Decoder
from txjax.nn.parameters import path_name
from txjax.parallel import Layout, abstract_layout, check_batch, make_layout
from txjax.schema import ConfigError
from txjax.train.programs import Programs

MESH = Mesh(data=2, fsdp=2, tensor=2)
MODEL = Model(width=16, num_layers=2, vocab_size=12, context=8, attention=Attention(num_heads=4, num_kv_heads=2))


def specs(model: Model, mesh: Mesh = MESH) -> dict[str, PartitionSpec]:
    decoder = Decoder(model)
    places = abstract_layout(mesh, 8).parameters(decoder.axes(), decoder.shapes())
    return {path_name(path): place.spec for path, place in jax.tree_util.tree_leaves_with_path(places)}


def test_parameters_lie_where_the_rules_say():
    found = specs(MODEL)
    assert found["embedding/w"] == PartitionSpec(("tensor",), ("fsdp",))
    assert found["layers/block_0/attention/query/w"] == PartitionSpec(None, ("fsdp",), ("tensor",), None)
    assert found["layers/block_0/attention/out/w"] == PartitionSpec(None, ("tensor",), None, ("fsdp",))
    assert found["layers/block_0/dense/in/w"] == PartitionSpec(None, ("fsdp",), ("tensor",))
    assert found["final_norm/gain"] == PartitionSpec(("fsdp",))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [({}, (8, 1, 1)), ({"data": 2, "fsdp": -1}, (2, 4, 1)), ({"data": 1, "fsdp": 2, "tensor": -1}, (1, 2, 4))],
)
def test_one_size_may_be_what_is_left(sizes: dict[str, int], expected: tuple[int, ...]):
    assert make_layout(Mesh(**sizes)).mesh.axis_sizes == abstract_layout(Mesh(**sizes), 8).mesh.axis_sizes == expected


@pytest.mark.parametrize("sizes", [{"data": 3}, {"fsdp": 3}, {"data": 2, "fsdp": 2}, {"data": 4, "tensor": 4}])
def test_sizes_that_do_not_make_the_devices_are_refused(sizes: dict[str, int]):
    with pytest.raises(ConfigError, match="do not make 8 devices: their product must be 8"):
        make_layout(Mesh(**sizes))


@pytest.mark.parametrize("sizes", [{"data": 0}, {"data": -2}, {"fsdp": -1}])
def test_sizes_that_are_none_are_refused(sizes: dict[str, int]):
    with pytest.raises(ConfigError, match="must be at least 1, and one of them at most -1"):
        Mesh(**sizes)


@pytest.mark.bug("jax-ml/jax#27808", "keras-team/keras#21167", "google/objax#52", "Physical-Intelligence/openpi#607")
@pytest.mark.bug("marin-community/levanter#429")
@pytest.mark.parametrize(
    ("model", "mesh", "message"),
    [
        ({"width": 30, "attention": Attention(num_heads=3)}, {"fsdp": 4}, "embed=30 does not divide over mesh.fsdp=4"),
        ({"vocab_size": 50257}, {"tensor": 4}, "embedding/w: vocab=50257 does not divide over mesh.tensor=4"),
        (
            {"width": 24, "attention": Attention(num_heads=6)},
            {"tensor": 4},
            "heads=6 does not divide over mesh.tensor=4",
        ),
        ({"attention": Attention(num_heads=8, num_kv_heads=2)}, {"tensor": 4}, "kv_heads=2 does not divide over"),
    ],
)
def test_what_devices_do_not_divide_is_named_with_what_to_do(model: Any, mesh: dict[str, int], message: str):
    decoder = Decoder(replace(MODEL, **model))
    layout = abstract_layout(Mesh(**mesh), 8)
    with pytest.raises(ConfigError, match=message) as error:
        layout.parameters(decoder.axes(), decoder.shapes())
    assert "change one of them, or map" in str(error.value)


@pytest.mark.bug("jax-ml/jax#27808", "keras-team/keras#21167")
def test_a_batch_that_devices_do_not_divide_is_refused_with_one_that_they_do():
    layout = abstract_layout(Mesh(data=2, fsdp=2, tensor=2), 8)
    check_batch(layout, 12, 1)
    with pytest.raises(ConfigError, match=r"train.batch_size=10 does not divide over 4 devices .* try 8"):
        check_batch(layout, 10, 1)
    with pytest.raises(ConfigError, match=r"over 4 devices times train.accumulation=2 .* try 16"):
        check_batch(layout, 12, 2)


def rules_with(name: str, over: str | None) -> Mesh:
    return replace(MESH, parameter_rules=tuple((n, over if n == name else o) for n, o in MESH.parameter_rules))


def test_an_axis_without_a_rule_and_two_on_one_mesh_axis_are_refused():
    """flax lays out the first nowhere and drops the second, without a word."""
    fewer = replace(MESH, parameter_rules=tuple(rule for rule in MESH.parameter_rules if rule[0] != "mlp"))
    with pytest.raises(ConfigError, match=r"no rule for the axis 'mlp' of layers/block_0/dense"):
        specs(MODEL, fewer)
    with pytest.raises(ConfigError, match=r"puts two of its axes .* on one mesh axis"):
        specs(MODEL, rules_with("embed", "tensor"))


def test_a_rule_for_no_mesh_axis_is_refused():
    with pytest.raises(
        ConfigError, match=r"parameter_rules: mlp must go to none.*'data\+tensr', did you mean 'tensor'"
    ):
        rules_with("mlp", "data+tensr")
    with pytest.raises(ConfigError, match="activation_rules must say where batch goes"):
        Mesh(activation_rules=())


def test_an_axis_over_two_mesh_axes_is_cut_by_both():
    assert specs(MODEL, rules_with("vocab", None))["embedding/w"] == PartitionSpec(None, ("fsdp",))
    both = rules_with("mlp", "tensor+data")
    assert specs(MODEL, both)["layers/block_0/dense/in/w"] == PartitionSpec(None, ("fsdp",), ("tensor", "data"))


def test_moments_lie_where_their_parameters_do():
    config = Config(model=MODEL, mesh=MESH, train=Train(batch_size=8))
    layout: Layout = make_layout(MESH)
    with layout.scope():
        programs = Programs(config, Decoder(MODEL), layout)
        state = programs.state
    mu = state.opt_state.mu
    for parameter, moment in zip(jax.tree.leaves(state.params), jax.tree.leaves(mu), strict=True):
        assert parameter.sharding == moment.sharding
    assert state.opt_state.count.sharding.is_fully_replicated
