"""Runs as real processes: killed with -9 while they save, and two that are one run."""

from __future__ import annotations

import itertools
import json
import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from txjax.store import Run

KILLS = 10
KILLED_RUN = runpy.run_path(str(Path(__file__).with_name("killed_run.py")))
EVERY, initial, update = (KILLED_RUN[name] for name in ("EVERY", "initial", "update"))


def start(script: str, *arguments: Any, devices: int = 1) -> subprocess.Popen[str]:
    """A script beside this file, in a process that finds the project and has that many CPU devices."""
    here = Path(__file__)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(here.parents[2]), os.environ.get("PYTHONPATH", "")]),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    command = [sys.executable, str(here.with_name(script)), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def answer(process: subprocess.Popen[str]) -> list[Any]:
    """The JSON lines that it prints, lists and texts; Gloo prints too, two threads in one line at times."""
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, err
    lines = [line for line in out.splitlines() if line.startswith(("[", '"', "{")) and not line.startswith("[Gloo]")]
    return [json.loads(line) for line in lines]


@pytest.mark.bug("KempnerInstitute/KempnerForge#102", "Lightning-AI/pytorch-lightning#688", "SWivid/F5-TTS#754")
@pytest.mark.bug("lanpa/tensorboardX#185", "tensorflow/tensorboard#3732", "p-doom/jasmine#17")
def test_a_run_killed_ten_times_is_the_uninterrupted_run(tmp_path: Path):
    starts = answer(start("killed_run.py", tmp_path, KILLS))
    assert len(starts) == KILLS + 1
    for before, after in itertools.pairwise(starts):
        assert after["start"] >= before["safe"]
        assert after["start"] >= before["begun"] - EVERY
    last = starts[-1]["begun"]
    assert last > 20  # so that it did get on

    run = Run.read(tmp_path)
    assert run.saved.latest() == last
    expected = initial()
    losses = []
    for _ in range(last):
        expected = update(expected)
        losses.append(float(expected["params"]["x"][0]))
    for piece, tree in expected.items():
        found = jax.tree.leaves(run.saved.look(last, piece))
        for leaf, found_leaf in zip(jax.tree.leaves(tree), found, strict=True):
            assert (leaf.dtype, leaf.tobytes()) == (found_leaf.dtype, found_leaf.tobytes())
    assert len(run.info["starts"]) == KILLS + 1

    steps = list(range(1, last + 1))
    assert [(row["step"], row["train/loss"]) for row in run.rows()] == list(zip(steps, losses, strict=True))
    events = event_accumulator.EventAccumulator(str(run.tensorboard), size_guidance={event_accumulator.SCALARS: 0})
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == steps
    np.testing.assert_array_equal([event.value for event in events.Scalars("train/loss")], losses)
    assert [event.step for event in events.Scalars("val/loss")] == steps[EVERY - 1 :: EVERY]


FAILING = """
import pathlib, sys
from txjax.store.checkpoints import CheckpointWriter
folder = pathlib.Path(sys.argv[1])
with CheckpointWriter(folder, keep_last=1) as writer:
    folder.rmdir()
    folder.write_text("in the way")
    writer.save(7, params={"w": 1.0}, opt_state=(), progress={}, data={})
"""


@pytest.mark.bug("google/orbax#605")
def test_a_process_whose_save_failed_says_so_and_ends(tmp_path: Path):
    command = [sys.executable, "-c", FAILING, str(tmp_path / "checkpoints")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)  # orbax's threads can hold it for 300
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("checkpoint 7 was not saved in " + command[-1] + ": Not a directory")


def test_two_processes_are_one_run(tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [start("two_processes.py", tmp_path / "run", port, index, devices=2) for index in range(2)]
    first, second = ([*answer(process)] for process in processes)
    assert first == second  # the same folder, steps, values and refusals
    run = Run.read(tmp_path / "run")
    assert [start["devices"]["processes"] for start in run.info["starts"]] == [2]
    assert run.rows() == [{"step": step, "train/loss": step / 2} for step in range(1, 7)]
    assert len(list(run.tensorboard.iterdir())) == 1
    assert run.saved.steps() == [2, 6] and run.saved.best() == 2
    np.testing.assert_array_equal(run.saved.look(6)["w"], np.arange(8) + 6)
