"""A run that starts from another's parameters: what it takes, what it says, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from small_run import config_of

from txjax.cli import main
from txjax.nn.parameters import path_name
from txjax.store import Run

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
    leaves = jax.tree_util.tree_leaves_with_path(checkpoints.look(checkpoints.find("latest")))
    return {path_name(path): leaf for path, leaf in leaves}


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


def test_without_it_a_run_of_another_seed_starts_elsewhere(before: Path):
    assert train(before, "third", *STILL) == 0
    first, third = saved(before / "first"), saved(before / "third")
    assert not np.array_equal(first["embedding/w"], third["embedding/w"])


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("first", ("--config.model.width=32", "--config.model.num_layers=4"), "none of its parameters"),
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
