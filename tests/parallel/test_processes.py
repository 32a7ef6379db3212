"""Two processes that train one model over loopback: the run of one process, in one folder."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from small_run import (
    Ended,
    assert_close,
    column,
    config_of,
    end,
    free_port,
    rows_in,
    scalars,
    start,
    txjax,
    until,
)

from txjax.parallel.processes import join_processes
from txjax.schema import ConfigError
from txjax.store import Run


def start_two(*arguments: object) -> list[subprocess.Popen[str]]:
    together = ("--processes=2", f"--coordinator=127.0.0.1:{free_port()}")
    return [start(*arguments, *together, f"--process={number}") for number in range(2)]


def end_all(processes: list[subprocess.Popen[str]]) -> list[Ended]:
    try:
        return [end(process) for process in processes]
    finally:
        for process in processes:
            process.kill()


@pytest.mark.long
@pytest.mark.bug("horovod/horovod#708", "ray-project/ray#59842")
def test_two_processes_train_the_run_of_one_which_then_goes_on_alone(tmp_path: Path):
    """Both stop at one step when one of them is asked to. The 37 validation sequences make uneven shares."""
    train = ("train", config_of(tmp_path), "--config.train.steps=200", "--config.train.evaluate_every=20")
    train += ("--config.train.checkpoint_every=20", "--config.optim.learning_rate=1e-3", "--config.log.every=2")
    alone, together = tmp_path / "alone", tmp_path / "together"
    ended = txjax(*train, f"--workdir={alone}")
    assert ended.code == 0, ended.err

    processes = start_two(*train, f"--workdir={together}")
    until(lambda: rows_in(together) >= 11, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    first, second = end_all(processes)
    assert (first.code, second.code) == (75, 75), first.err + second.err
    assert "model      7,136 parameters on 2 cpu" in first.out
    assert "step" not in second.out  # one of them speaks
    step = max(column(together, "train/loss"))
    assert step >= 22 and Run.read(together).saved.latest() == step

    ended = txjax(*train, f"--workdir={together}")
    assert ended.code == 0, ended.err
    assert f"resumed from step {step}\n" in ended.out
    assert [entry["devices"]["processes"] for entry in Run.read(together).info["starts"]] == [2, 1]
    for name in ("train/loss", "train/grad_norm", "val/loss"):
        one, two = column(alone, name), column(together, name)
        assert_close({s: v for s, v in one.items() if s <= 20}, {s: v for s, v in two.items() if s <= 20}, 1e-6)
        assert_close(one, {s: v for s, v in two.items() if s in one}, 1e-3)
        assert list(scalars(together, name)) == list(two)
    assert column(alone, "val/tokens") == column(together, "val/tokens")


@pytest.mark.slow
def test_when_one_process_dies_the_other_ends_with_an_error(tmp_path: Path):
    folder = tmp_path / "run"
    flags = ("--config.train.steps=100000", "--config.log.every=2")
    processes = start_two("train", config_of(tmp_path), f"--workdir={folder}", *flags)
    until(lambda: rows_in(folder) >= 2, processes[0])
    processes[1].kill()
    first, _ = end_all(processes)  # which fails where it takes minutes
    assert first.code not in (0, 75)
    assert "finished" not in first.out


def test_processes_that_do_not_divide_the_batch_are_refused(tmp_path: Path):
    config = config_of(tmp_path)
    for ended in end_all(start_two("train", config, f"--workdir={tmp_path / 'run'}", "--config.train.batch_size=5")):
        assert ended.code == 2
        assert "txjax train: train.batch_size=5 does not divide over 2 devices" in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("coordinator", "count", "index"),
    [(None, None, 1), ("localhost:1", None, None), (None, "2", 0), ("localhost:1", "2", 2), ("localhost:1", "two", 0)],
)
def test_options_that_do_not_make_a_group_are_refused(coordinator: str | None, count: str | None, index: int | None):
    with pytest.raises(ConfigError, match=r"--processes=N|needs --coordinator=HOST:PORT and --process=I"):
        join_processes(coordinator, count, index)
