"""Runs of a second or two, as their user has them: a config file, a text, and processes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from tensorboard.backend.event_processing import event_accumulator

from txjax.cli import main
from txjax.store.checkpoints import Checkpoints
from txjax.store.metrics import read_rows

PROJECT = Path(__file__).parents[1]
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "birds", "fly", "by"]


def config_of(folder: Path) -> str:
    """The --config option of a small run: small_config.py with a text, which is written to the folder."""
    text = folder / "text.txt"
    text.write_text(" ".join(random.Random(0).choices(WORDS, k=1500)))
    return f"--config={PROJECT / 'tests' / 'small_config.py'}:{text}"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


PIPE = subprocess.PIPE


def python(*words: object, devices: int = 1, stdout: int = PIPE, **environment: str) -> subprocess.Popen[str]:
    """Python with these words, in a process that finds the project and has so many CPU devices. A variable set to
    nothing is not there.
    """
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]),
        "XLA_FLAGS": re.sub(r"(?<=device_count=)\d+", str(devices), os.environ["XLA_FLAGS"]),  # of conftest.py
    }
    variables = {name: value for name, value in (variables | environment).items() if value}
    command = [sys.executable, *map(str, words)]
    return subprocess.Popen(command, stdin=PIPE, stdout=stdout, stderr=PIPE, text=True, env=variables)


def start(*arguments: object, devices: int = 1, stdout: int = PIPE, **environment: str) -> subprocess.Popen[str]:
    """`python -m txjax` with these words."""
    return python("-m", "txjax", *arguments, devices=devices, stdout=stdout, **environment)


def end(process: subprocess.Popen[str]) -> Ended:
    """Wait for a process, which is killed if it hangs."""
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    return Ended(process.returncode, out or "", err)


def txjax(*arguments: object, devices: int = 1, **environment: str) -> Ended:
    """`python -m txjax` with these words, to its end."""
    return end(start(*arguments, devices=devices, **environment))


def here(*arguments: object) -> Ended:
    """A command in this process, for one that computes nothing: a start would take longer than all else."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(map(str, arguments)))
    return Ended(code, out.getvalue(), err.getvalue())


SESSION = """
import contextlib, io, json, sys
from txjax.cli import main
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def session(*commands: Sequence[object], **environment: str) -> list[Ended]:
    """Several commands, one after another in one process, which saves the time that its start takes."""
    process = python("-c", SESSION, **environment)
    out, err = process.communicate(json.dumps([list(map(str, words)) for words in commands]), timeout=240)
    assert process.returncode == 0, err
    return [Ended(*json.loads(line)) for line in out.splitlines()]


def until(true: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    """Wait until something is true; an error, with what it said, where the process ends first."""
    while not true():
        if process.poll() is not None and not true():
            raise AssertionError(f"ended early: {end(process)}")
        time.sleep(0.01)


def rows_in(workdir: Path) -> int:
    """Rows of metrics.jsonl so far."""
    path = workdir / "metrics.jsonl"
    return path.read_text().count("\n") if path.exists() else 0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def assert_same_checkpoint(one: Path, other: Path, step: int) -> None:
    """Parameters, optimizer state, step, key, counters and data position, bit for bit."""
    a, b = Checkpoints(one / "checkpoints"), Checkpoints(other / "checkpoints")
    for piece in ("params", "opt_state", "progress"):
        left, right = a.look(step, piece), b.look(step, piece)
        assert jax.tree.structure(left) == jax.tree.structure(right)
        for (path, x), y in zip(jax.tree_util.tree_leaves_with_path(left), jax.tree.leaves(right), strict=True):
            assert (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes()), (piece, path)
    assert a.restore(step).data == b.restore(step).data


def scalars(workdir: Path, tag: str) -> dict[int, float]:
    """A curve as TensorBoard shows it, by step; a step that comes twice is an error."""
    events = event_accumulator.EventAccumulator(str(workdir / "tb"), size_guidance={event_accumulator.SCALARS: 0})
    events.Reload()
    points = events.Scalars(tag)
    curve = {event.step: event.value for event in points}
    assert len(curve) == len(points)
    return curve


def column(workdir: Path, name: str) -> dict[int, float]:
    """A column of metrics.jsonl, by step; a step that comes twice is an error."""
    rows = read_rows(workdir / "metrics.jsonl")
    assert len({row["step"] for row in rows}) == len(rows)
    return {row["step"]: row[name] for row in rows if name in row}


def assert_close(one: dict[int, float], other: dict[int, float], tolerance: float) -> None:
    """Two curves over the same steps, with nearly the same values."""
    assert list(one) == list(other)
    np.testing.assert_allclose(list(one.values()), list(other.values()), rtol=tolerance)
