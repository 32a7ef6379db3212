"""What a user sees of `txjax train`: a bar on a terminal, plain lines in a log, and TensorBoard in the browser."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from small_run import config_of, end, free_port, session, start, txjax

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*words: str) -> str:
    """What `python -m txjax` prints on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    process = start(*words, stdout=theirs, TERM="xterm-256color", COLUMNS="100")
    os.close(theirs)
    printed = b""
    with contextlib.suppress(OSError):  # raised once the other end is closed
        while new := os.read(ours, 65536):
            printed += new
    os.close(ours)
    assert end(process).code == 0, printed.decode()
    return printed.decode()


HEAD = """\
run        {folder}
model      7,136 parameters on 1 cpu
train      1 documents -> 323 sequences of 16: 5,158 tokens, 99.8% of the positions; 5,158 targets, 0 dropped
validation 1 documents -> 36 sequences of 16: 573 tokens, 99.5% of the positions; 573 targets, 0 dropped
"""


def test_a_log_has_plain_lines(tmp_path: Path):
    folder = tmp_path / "run"
    ended = txjax("train", config_of(tmp_path), f"--workdir={folder}")
    assert ended.err == ""
    assert ended.out.startswith(HEAD.format(folder=folder))
    rest = ended.out.removeprefix(HEAD.format(folder=folder)).splitlines()
    wanted = [
        "optim +rate 0.01, weight decay 0: 992 parameters, .*embedding/w.*",
        "optim +rate 0.01, weight decay 0.1: 6,144 parameters, .*query/w.*",
        r"compiling the train step \.\.\.",
        r"compiled in \d+\.\d s",
        r"step 1/20  loss \d\.\d{3}  [\d,]+ tokens/s",
        r"step 20/20  loss \d\.\d{3}  [\d,]+ tokens/s",
        r"step 20  val/loss \d\.\d{4}  val/accuracy 0\.\d{4} over 573 tokens",
        "finished at step 20",
        f"run folder  {folder}",
        f"curves      tensorboard --logdir={folder}/tb",
        f"sample      txjax generate --workdir={folder}",
    ]
    lines = [line for line in rest if not re.match("step (?!1/|20/)[0-9]+/20", line)]  # one more every ten seconds
    for line, pattern in zip(lines, wanted, strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


def test_a_terminal_has_a_bar_with_steps_speed_and_the_time_left(tmp_path: Path):
    flags = ("--config.train.steps=600", "--config.train.evaluate_every=100")
    printed = on_a_terminal("train", config_of(tmp_path), f"--workdir={tmp_path / 'run'}", *flags)
    frames = [ESCAPES.sub("", frame).strip() for frame in re.split(r"[\r\n]+", printed)]
    bar = re.compile(r"training ━*[╸╺]?━* +(\d+)/600 loss \d\.\d{3}  [\d,]+ tokens/s \d:\d\d:\d\d")
    steps = [int(match[1]) for frame in frames if (match := bar.fullmatch(frame))]
    assert len(set(steps)) > 1
    assert steps == sorted(steps)
    evaluation = r"step \d00  val/loss \d\.\d{4}  val/accuracy 0\.\d{4} over 573 tokens"
    told = [frame for frame in frames if frame.startswith("step ")]
    assert told == [frame for frame in frames if re.fullmatch(evaluation, frame)]
    assert "finished at step 600" in frames
    assert not any("━" in frame for frame in frames[frames.index("finished at step 600") :])  # the bar has gone


@pytest.mark.slow
@pytest.mark.bug("tensorflow/tensorboard#5596", "lanpa/tensorboardX#670")
def test_tensorboard_shows_the_curves_and_the_hyperparameters_beside_them(tmp_path: Path):
    """Its own HTTP answers, over loopback, about three runs whose configs have different fields."""
    config = config_of(tmp_path)
    positions = ("learned", "rope", "none")
    ended = session(
        *(["train", config, f"--workdir={tmp_path / 'runs' / p}", f"--config.model.position={p}"] for p in positions)
    )
    assert [e.code for e in ended] == [0, 0, 0], ended
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={tmp_path / 'runs'}", f"--port={port}"]
    server = subprocess.Popen([*command, "--host=127.0.0.1", "--load_fast=false"], stderr=subprocess.DEVNULL)

    def ask(path: str, question: Any = None) -> Any:
        data = None if question is None else json.dumps(question).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/data/plugin/{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    try:
        deadline = time.monotonic() + 120
        tags: dict[str, Any] = {}
        while len(tags) < len(positions) and time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                tags = ask("scalars/tags")
            except OSError:  # it is starting
                continue
        assert sorted(tags) == sorted(f"{p}/tb" for p in positions)
        assert all(
            {"train/loss", "val/loss", "val/bits_per_byte", "train/mfu"} <= set(names) for names in tags.values()
        )
        points = ask("scalars/scalars?run=rope%2Ftb&tag=train%2Floss")
        assert [step for _, step, _ in points] == list(range(1, 21))
        groups = ask(
            "hparams/session_groups",
            {
                "experimentName": "",
                "allowedStatuses": ["STATUS_UNKNOWN"],
                "colParams": [],
                "startIndex": 0,
                "sliceSize": 9,
            },
        )["sessionGroups"]
        found = {group["hparams"]["model.position.kind"]: group for group in groups}
        assert sorted(found) == sorted(positions)
        assert found["rope"]["hparams"]["model.position.rope.theta"] == 10000.0
        assert found["none"]["hparams"]["train.patience"] == "none"
        metrics = {m["name"]["tag"] for m in found["none"]["metricValues"]}
        assert {"train/loss", "val/loss"} <= metrics
    finally:
        server.terminate()
        server.wait()
