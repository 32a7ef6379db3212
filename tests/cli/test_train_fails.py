"""`txjax train` that cannot go on: it says so in a sentence, its exit code is not 0, and what it saved is sound."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import jax
import numpy as np
import pytest
from small_run import column, config_of, end, rows_in, session, start, until

from txjax.store.checkpoints import Checkpoints

SPIKE = """
from dataclasses import dataclass, replace
import jax.numpy as jnp
from txjax.config import Schedule
from small_config import get_config as small

@dataclass(frozen=True)
class Spike(Schedule, kind="spike"):
    '''An infinite learning rate at one step.'''

    at: int = 7

    def factor(self, step, steps):
        return jnp.where(step == self.at - 1, jnp.inf, 1.0)

def get_config(text):
    config = small(text)
    return replace(config, optim=replace(config.optim, schedule=Spike()))
"""


@pytest.mark.bug("karpathy/nanoGPT#215", "ml-explore/mlx-lm#1658", "T056")
def test_steps_that_are_not_finite(tmp_path: Path):
    small = config_of(tmp_path)
    (tmp_path / "spike.py").write_text(SPIKE)
    (tmp_path / "small_config.py").write_text(Path(small.removeprefix("--config=").partition(":")[0]).read_text())
    spike = f"--config={tmp_path / 'spike.py'}:{tmp_path / 'text.txt'}"

    def train(config: str, folder: str, *flags: str) -> list[str]:
        return ["train", config, f"--workdir={tmp_path / folder}", *(f"--config.{flag}" for flag in flags)]

    stop = train(spike, "stop", "train.checkpoint_every=5", "log.every=4")
    stopped, again, skipped, wild, first = session(
        stop,
        stop,
        train(spike, "skip", "train.non_finite=skip", "train.checkpoint_every=7"),
        train(small, "wild", "optim.learning_rate=1e20", "train.non_finite=skip", "train.max_skips=3"),
        train(small, "first", "optim.learning_rate=1e20", "train.checkpoint_every=1"),
    )
    for ended in (stopped, again):
        assert ended.code == 1
        assert (
            "txjax train: step 7: the loss (" in ended.err and "is not finite: lower optim.learning_rate" in ended.err
        )
        assert "finished" not in ended.out
    assert "resumed from step 5" in again.out
    assert Checkpoints(tmp_path / "stop" / "checkpoints").steps() == [5]

    assert skipped.code == 0, skipped.err
    assert column(tmp_path / "skip", "train/skipped_steps") == {step: int(step >= 7) for step in range(1, 21)}
    saved = Checkpoints(tmp_path / "skip" / "checkpoints")
    assert saved.steps() == [14, 20]  # the one of step 7 has made room
    for folder, step in (("stop", 5), ("skip", 14), ("skip", 20)):
        leaves = jax.tree.leaves(Checkpoints(tmp_path / folder / "checkpoints").look(step))
        assert all(np.isfinite(leaf).all() for leaf in leaves)

    assert wild.code == 1
    assert "step 4: 4 steps in a row were not finite, more than train.max_skips=3" in wild.err
    assert Checkpoints(tmp_path / "wild" / "checkpoints").steps() == []
    assert first.code == 1  # the loss of step 1 is fine, what it makes of the parameters is not
    assert "step 1: the loss (2." in first.err and "update (norm inf) is not finite" in first.err
    assert Checkpoints(tmp_path / "first" / "checkpoints").steps() == []


@pytest.mark.bug("google/orbax#605", "keras-team/keras#23609")
@pytest.mark.parametrize(
    ("checkpoint_every", "fails"),
    [("40", r"checkpoint (\d+) was not saved"), ("none", "checkpoint 400 was not saved")],
    ids=["a save on the way", "the last save"],
)
@pytest.mark.long
def test_a_disk_that_fills_up_is_a_loud_end(tmp_path: Path, checkpoint_every: str, fails: str):
    """From some moment on the process cannot write files of more than 4 KB, whoever runs it."""
    folder = tmp_path / "run"
    flags = (
        "--config.train.steps=400",
        "--config.log.every=400",
        f"--config.train.checkpoint_every={checkpoint_every}",
    )
    process = start("train", config_of(tmp_path), f"--workdir={folder}", *flags, "--config.log.tensorboard=false")
    until((folder / "checkpoints").is_dir, process)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
    ended = end(process)
    assert ended.code == 1
    assert re.search(f"txjax train: {fails}.*: File too large", ended.err)
    assert "finished" not in ended.out


def test_a_file_in_the_place_of_the_checkpoints_is_a_loud_end(tmp_path: Path):
    folder = tmp_path / "run"
    process = start("train", config_of(tmp_path), f"--workdir={folder}", "--config.train.steps=400")
    until(lambda: rows_in(folder), process)
    (folder / "checkpoints").rmdir()
    (folder / "checkpoints").write_text("in the way")
    ended = end(process)
    assert ended.code == 1
    assert "txjax train: checkpoint 400 was not saved in" in ended.err
    assert "finished" not in ended.out
