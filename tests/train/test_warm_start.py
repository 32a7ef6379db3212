"""A run that starts from another's parameters: what it takes, what it says, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from small_run import config_of

from txjax.cli import main
from txjax.config import Layer
from txjax.models import Decoder
from txjax.nn.parameters import path_name
from txjax.store import Run
from txjax.train.state import initial_state
from txjax.train.warm_start import warm_start

STILL = ("--config.optim.learning_rate=0", "--config.train.steps=1", "--config.train.seed=1")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(["train", config_of(folder), f"--workdir={folder / 'first'}", "--config.train.steps=2"]) == 0
    return folder


def train(folder: Path, name: str, *flags: str) -> int:
    return main(["train", config_of(folder), f"--workdir={folder / name}", *flags])


def saved(folder: Path) -> dict[str, Any]:
    checkpoints = Run.read(folder).saved
    return named(checkpoints.look(checkpoints.find("latest")))


def named(tree: Any) -> dict[str, Any]:
    return {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


@pytest.mark.bug("AI-Hypercomputer/maxtext#4343", "T100")
def test_a_run_takes_what_fits_and_names_what_is_new(before: Path, capsys: pytest.CaptureFixture[str]):
    changes = ("--config.model.head=linear", "--config.model.position=rope", "--config.model.attention.qk_norm=head")
    assert train(before, "second", *STILL, *changes, f"--config.train.init_from={before / 'first'}") == 0
    said = capsys.readouterr().out
    first, second = saved(before / "first"), saved(before / "second")
    new = {"head/w", *(name for name in second if "query_norm" in name or "key_norm" in name)}
    assert len(new) == 5
    for name in second.keys() - new:
        assert np.array_equal(first[name], second[name]), name
    assert f"{len(second) - 5} of {len(second)} parameters are those of step 2 of {before / 'first'}" in said
    assert "new: head/w, layers/block_0/attention/key_norm/bias" in said
    assert "left there: position/table" in said


def begun(before: Path, **changes: Any) -> tuple[tuple[str, ...], dict[str, Any], dict[str, Any]]:
    """What a run of the first one's model, changed, says of its start; what it starts with; what was drawn."""
    config = Run.read(before / "first").config
    model = replace(config.model, **changes)
    drawn = initial_state(replace(config, model=model, train=replace(config.train, seed=1)), Decoder(model))
    start = warm_start(str(before / "first"), model, drawn.params)
    return start.lines, named(start.of(drawn).params), named(drawn.params)


@pytest.mark.parametrize("layers", [1, 3])
def test_each_layer_takes_those_of_its_number(layers: int, before: Path):
    """From two layers into one or three: the layers that only one of them has are named, and drawn as without it."""
    lines, got, drawn = begun(before, num_layers=layers)
    first = saved(before / "first")
    for name, leaf in got.items():
        if name.startswith("layers/"):
            assert len(first[name]) == 2 and len(leaf) == layers
            np.testing.assert_array_equal(leaf[:2], first[name][:layers], err_msg=name)
            np.testing.assert_array_equal(leaf[2:], drawn[name][2:], err_msg=name)
        else:
            np.testing.assert_array_equal(leaf, first[name], err_msg=name)
    inside = sum(name.startswith("layers/") for name in got)
    whole = len(got) if layers == 1 else len(got) - inside
    assert lines[0].startswith(f"{whole} of {len(got)} parameters are those of step 2")
    assert lines[0].endswith({1: "first", 3: f", and {inside} more in some of their layers"}[layers])
    which = {
        1: "left there: layers/block_0/attention/key/b of layer 1, ",
        3: "new: layers/block_0/attention/key/b of layer 2, ",
    }
    assert lines[1].startswith(which[layers]) and len(lines) == 2


def test_layers_are_told_by_their_numbers_whatever_the_pattern(before: Path):
    """One stack of two there; here the first has a place of its own, and the second begins a stack of four."""
    _, got, drawn = begun(before, num_layers=5, first_layers=(Layer(),), pattern=(Layer(), Layer()))
    for name, leaf in saved(before / "first").items():
        own = name.removeprefix("layers/block_0/")
        if own == name:
            np.testing.assert_array_equal(got[name], leaf, err_msg=name)
            continue
        np.testing.assert_array_equal(got[f"first_0/{own}"], leaf[0], err_msg=name)
        np.testing.assert_array_equal(got[f"layers/block_0/{own}"][0], leaf[1], err_msg=name)
        for rest in ((f"layers/block_0/{own}", slice(1, None)), (f"layers/block_1/{own}", slice(None))):
            np.testing.assert_array_equal(got[rest[0]][rest[1]], drawn[rest[0]][rest[1]], err_msg=name)


def test_without_it_a_run_of_another_seed_starts_elsewhere(before: Path):
    assert train(before, "third", *STILL) == 0
    first, third = saved(before / "first"), saved(before / "third")
    assert not np.array_equal(first["embedding/w"], third["embedding/w"])


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("first", ("--config.model.width=32", "--config.model.feedforward.dense.hidden=128"), "none of its parameters"),
        ("nowhere", (), "init_from='{}': --workdir: there is no folder"),
    ],
)
def test_nothing_that_fits_is_refused_before_there_is_a_folder(
    before: Path, name: str, flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    source = str(before / name)
    assert train(before, "fourth", *flags, f"--config.train.init_from={source}") == 2
    assert message.format(source) in capsys.readouterr().err
    assert not (before / "fourth").exists()
