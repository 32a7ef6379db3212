"""One run over eight devices, one, and two: the same data, nearly the same sums."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest
from small_run import assert_close, column, config_of, end, rows_in, start, txjax, until

from txjax.store import Run

STEPS = 200


@pytest.mark.long
def test_a_run_moves_between_meshes_and_learns_the_same(tmp_path: Path):
    """The first 20 steps are those of eight devices, four groups that each share the weights between two."""
    train = ("train", config_of(tmp_path), f"--config.train.steps={STEPS}", "--config.model.dropout=0.1")
    train += ("--config.optim.learning_rate=1e-3", "--config.train.evaluate_every=20")
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    ended = txjax(*train, f"--workdir={whole}")
    assert ended.code == 0, ended.err

    for devices, mesh, rows in ((8, (4, 2), 22), (1, (1, 1), 50), (2, (1, 2), STEPS)):
        flags = [f"--config.mesh.{axis}={size}" for axis, size in zip(("data", "fsdp"), mesh, strict=True)]
        process = start(*train, f"--workdir={moved}", *flags, devices=devices)
        until(lambda rows=rows: rows_in(moved) >= rows, process)
        process.send_signal(signal.SIGTERM)
        ended = end(process)
        assert ended.code == (75 if rows < STEPS else 0), ended.err
    starts = Run.read(moved).info["starts"]
    assert [entry["devices"]["count"] for entry in starts] == [8, 1, 2]

    def first(folder: Path, name: str, steps: int) -> dict[int, float]:
        return dict(itertools.takewhile(lambda point: point[0] <= steps, column(folder, name).items()))

    for name in ("train/loss", "train/grad_norm", "train/learning_rate", "val/loss"):
        assert_close(first(whole, name, 20), first(moved, name, 20), 1e-6)
        assert_close(column(whole, name), column(moved, name), 1e-3)
    assert column(whole, "val/tokens") == column(moved, "val/tokens")
    assert Run.read(whole).saved.restore(STEPS).data == Run.read(moved).saved.restore(STEPS).data
