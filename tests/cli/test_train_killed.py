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

STEPS = 200
EXACT = (
    "--config.model.dropout=0.1", "--config.optim.schedule=cosine", "--config.optim.schedule.cosine.warmup=20",
    f"--config.train.steps={STEPS}",
)  # fmt: skip


def resumed_from(out: str) -> int:
    """The N of `resumed from step N`, which must stand there once."""
    (step,) = re.findall(r"^resumed from step (\d+)$", out, re.MULTILINE)
    return int(step)


@pytest.mark.bug("borisdayma/dalle-mini#71", "AI-Hypercomputer/maxdiffusion#484", "lanpa/tensorboardX#185")
def test_a_run_killed_three_times_is_the_uninterrupted_run_bit_for_bit(tmp_path: Path):
    train = ("train", config_of(tmp_path), *EXACT, "--config.train.checkpoint_every=20")
    assert txjax(*train, f"--workdir={tmp_path / 'whole'}").code == 0

    killed, moments = tmp_path / "killed", random.Random()
    for kill in range(3):
        process = start(*train, f"--workdir={killed}")
        row = max(rows_in(killed), 20) + moments.randint(1, 45)  # at least one checkpoint has been begun by then
        until(lambda row=row: rows_in(killed) >= row and any((killed / "checkpoints").glob("*/params")), process)
        process.kill()
        ended = end(process)
        assert ended.code == -signal.SIGKILL
        assert kill == 0 or resumed_from(ended.out) > 0
    ended = txjax(*train, f"--workdir={killed}")
    assert ended.code == 0, ended.err
    assert resumed_from(ended.out) > 0
    assert f"finished at step {STEPS}" in ended.out

    assert_same_checkpoint(tmp_path / "whole", killed, STEPS)
    losses = column(killed, "train/loss")
    assert list(losses) == list(range(1, STEPS + 1))
    assert losses == column(tmp_path / "whole", "train/loss")
    assert scalars(killed, "train/loss") == {step: np.float32(loss) for step, loss in losses.items()}
    assert len(Run.read(killed).info["starts"]) == 4
