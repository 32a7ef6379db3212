"""`txjax train` killed, stopped and started again, as real processes."""

from __future__ import annotations

import random
import re
import signal
from pathlib import Path

import numpy as np
import pytest
from small_run import assert_same_checkpoint, column, config_of, end, rows_in, scalars, start, txjax, until

from txjax.store import Run
from txjax.store.checkpoints import Checkpoints

STEPS = 200
EXACT = (
    "--config.model.dropout=0.1", "--config.optim.schedule=cosine", "--config.optim.schedule.cosine.warmup=20",
    f"--config.train.steps={STEPS}",
)  # fmt: skip


def resumed_from(out: str) -> int:
    """The N of `resumed from step N`, which must stand there once."""
    (step,) = re.findall(r"^resumed from step (\d+)$", out, re.MULTILINE)
    return int(step)


@pytest.mark.long
@pytest.mark.bug("borisdayma/dalle-mini#71", "AI-Hypercomputer/maxdiffusion#484", "lanpa/tensorboardX#185")
def test_a_run_killed_three_times_and_stopped_once_is_the_uninterrupted_run_bit_for_bit(tmp_path: Path):
    train = ("train", config_of(tmp_path), *EXACT, "--config.train.checkpoint_every=20")
    assert txjax(*train, f"--workdir={tmp_path / 'whole'}").code == 0

    killed, moments = tmp_path / "killed", random.Random()
    checkpoints = Checkpoints(killed / "checkpoints")
    for number, ending in enumerate((signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)):
        process = start(*train, f"--workdir={killed}")
        row = rows_in(killed) + moments.randint(1, 30)
        until(lambda row=row: checkpoints.latest() and rows_in(killed) >= row, process)
        process.send_signal(ending)
        ended = end(process)
        assert ended.code == (75 if ending == signal.SIGTERM else -ending), ended.err
        assert number == 0 or resumed_from(ended.out) > 0
    stopped = checkpoints.latest()
    assert f"stopped by a signal, saved at step {stopped}: the same command goes on from there" in ended.out
    ended = txjax(*train, f"--workdir={killed}")
    assert ended.code == 0, ended.err
    assert resumed_from(ended.out) == stopped
    assert f"finished at step {STEPS}" in ended.out

    assert_same_checkpoint(tmp_path / "whole", killed, STEPS)
    losses = column(killed, "train/loss")
    assert list(losses) == list(range(1, STEPS + 1))
    assert losses == column(tmp_path / "whole", "train/loss")
    assert scalars(killed, "train/loss") == {step: np.float32(loss) for step, loss in losses.items()}
    assert len(Run.read(killed).info["starts"]) == 5
