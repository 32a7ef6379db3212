"""A search by Optuna and jobs by submitit: what is shared, pruned, cut short, retried."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from small_run import config_of, end, start

from txjax.cli import main
from txjax.config.flags import load
from txjax.lab.cells import Result
from txjax.lab.sweep import worker
from txjax.lab.sweep.course import plan
from txjax.lab.sweep.tpe import Search

SPACE = "optim.learning_rate=log_uniform(1e-4,1e-1);model.norm_placement=pre,post"


def search(folder: Path, trials: int, *more: str) -> int:
    words = [f"--sweep={SPACE}", f"--workdir={folder / 'out'}", "--engine=optuna", f"--trials={trials}"]
    return main(["sweep", config_of(folder), *words, *more])


def table(folder: Path) -> dict[str, dict]:
    return {row["cell"]: row for row in json.loads((folder / "out" / "results" / "table.json").read_text())}


def course(folder: Path, trials: int) -> Search:
    found = plan(load(config_of(folder).removeprefix("--config=")), SPACE, folder / "out", "x", trials, 0)
    assert isinstance(found, Search)
    return found


@pytest.fixture
def optuna() -> Any:
    return pytest.importorskip("optuna", reason='the extra "sweep" is not installed')


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Trainings that end at once with the losses that a test gives them, evaluated at steps 10 and 20."""
    script: dict[str, Any] = {"loss": lambda config: config.optim.learning_rate, "runs": []}

    def train_config(_: Any, config: Any, folder: Path, stop: Any, evaluated: Any = None) -> Result:
        from txjax.train.evaluate import Evaluation

        loss = script["loss"](config)
        script["runs"].append(folder.name)
        if isinstance(loss, Exception):
            raise loss
        for step in (10, 20):
            evaluated(step, Evaluation(loss, 0.0, 1))
        return Result("finished", 20, 1.0, {"val/loss": loss}, trivial=3.0)

    monkeypatch.setattr(worker.Trainer, "train_config", train_config)
    return script


@pytest.mark.long
def test_a_search_is_trials_in_a_table_and_goes_on_where_it_stood(tmp_path: Path, optuna: Any):
    """With real trainings."""
    assert search(tmp_path, 2) == 0
    first = table(tmp_path)
    assert list(first) == ["trial-0000", "trial-0001"]
    assert search(tmp_path, 3) == 0
    rows = table(tmp_path)
    assert {name: rows[name] for name in first} == first and len(rows) == 3
    for row in rows.values():
        assert row["state"] == "finished" and 1e-4 <= row["point"]["optim.learning_rate"] <= 1e-1
        assert row["config"]["model.norm_placement"] == row["point"]["model.norm_placement"]
    trials = course(tmp_path, 3).study().get_trials()
    assert [t.value for t in trials] == [row["metrics"]["val/loss"] for row in rows.values()]


def test_a_search_finds_its_way(tmp_path: Path, optuna: Any, pretended: dict[str, Any]):
    assert search(tmp_path, 30) == 0
    rates = [row["point"]["optim.learning_rate"] for row in table(tmp_path).values()]
    assert sorted(rates[10:])[10] < sorted(rates[:10])[5]  # lower is better here, and it has noticed


def test_a_trial_that_does_worse_than_the_median_is_ended_early(tmp_path: Path, optuna: Any, pretended: dict[str, Any]):
    calls = iter([1.0] * 5 + [2.0, 0.5])
    pretended["loss"] = lambda config: next(calls)
    assert search(tmp_path, 7) == 0
    assert [row["state"] for row in table(tmp_path).values()] == ["finished"] * 5 + ["pruned", "finished"]


@pytest.mark.bug("T028", "optuna/optuna#2705")
def test_a_trial_whose_worker_was_killed_is_gone_on_with(tmp_path: Path, optuna: Any, pretended: dict[str, Any]):
    """It is not left running for ever, and its point is not lost."""
    killed = course(tmp_path, 2)
    killed.sweep.open()
    study = killed.study()
    with killed._next(study) as found:
        assert found is not None
    assert [t.state.name for t in study.get_trials()] == ["RUNNING"]
    point = study.get_trials()[0].params
    assert search(tmp_path, 2) == 0
    rows = table(tmp_path)
    assert list(rows) == ["trial-0000", "trial-0001"] and rows["trial-0000"]["point"] == point
    assert [t.state.name for t in killed.study().get_trials()] == ["COMPLETE", "COMPLETE"]


@pytest.mark.bug("T028", "optuna/optuna#6283")
def test_a_trial_that_fails_takes_no_other_and_is_tried_again_on_request(
    tmp_path: Path, optuna: Any, pretended: dict[str, Any]
):
    calls = iter([1.0, MemoryError("out of memory"), 1.0])
    pretended["loss"] = lambda config: next(calls)
    assert search(tmp_path, 3) == 1
    rows = table(tmp_path)
    assert [row["state"] for row in rows.values()] == ["finished", "failed", "finished"]
    assert rows["trial-0001"]["error"] == "MemoryError: out of memory"
    pretended["loss"] = lambda config: 0.5
    assert search(tmp_path, 3) == 1 and len(pretended["runs"]) == 3
    assert search(tmp_path, 3, "--retry") == 0
    assert pretended["runs"][3:] == ["trial-0003"]
    again = table(tmp_path)
    assert list(again) == ["trial-0000", "trial-0002", "trial-0003"]  # it stands for the failed one,
    assert again["trial-0003"]["point"] == rows["trial-0001"]["point"]
    kept = Result.load(tmp_path / "out" / "cells" / "trial-0001")  # which is kept
    assert kept is not None and kept.error is not None and "Traceback" in kept.error


@pytest.mark.long
def test_two_workers_search_together(tmp_path: Path, optuna: Any):
    words = [f"--sweep={SPACE}", f"--workdir={tmp_path / 'out'}", "--engine=optuna", "--trials=6", "--workers=2"]
    ended = end(start("sweep", config_of(tmp_path), *words))
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert [t.state.name for t in course(tmp_path, 6).study().get_trials()] == ["COMPLETE"] * 6


@pytest.mark.long
def test_jobs_by_submitit(tmp_path: Path):
    pytest.importorskip("submitit", reason='the extra "sweep" is not installed')
    words = ["--sweep=train.seed=0,1,2", f"--workdir={tmp_path / 'out'}", "--workers=2"]
    jobs = ["--launcher=submitit", "--cluster=local", "--cluster_settings=timeout_min=5"]
    ended = end(start("sweep", config_of(tmp_path), *words, *jobs))
    assert ended.code == 0, ended.err
    assert {row["state"] for row in table(tmp_path).values()} == {"finished"} and len(table(tmp_path)) == 3
    ended = end(start("sweep", config_of(tmp_path), *words, *jobs[:2], "--cluster_settings=tmeout_min=5"))
    assert ended.code == 2 and "tmeout_min" in ended.err and len(ended.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("library", "words"),
    [("optuna", ["--engine=optuna", "--trials=2"]), ("submitit", ["--launcher=submitit", "--workers=2"])],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    library: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.setitem(sys.modules, library, None)
    assert main(["sweep", config_of(tmp_path), "--sweep=train.seed=0,1", f"--workdir={tmp_path / 'out'}", *words]) == 2
    assert 'pip install "txjax[sweep]"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine=optuna"], "--engine=optuna and --trials=N go together"),
        (["--workers=0"], "--workers must be at least 1"),
        (["--launcher=submitit", "--cluster_settings=timeout"], "must be NAME=VALUE"),
    ],
)
def test_options_that_do_not_fit_are_refused(words: list[str], message: str, tmp_path: Path, capsys):
    assert main(["sweep", config_of(tmp_path), "--sweep=train.seed=0,1", f"--workdir={tmp_path / 'out'}", *words]) == 2
    assert message in capsys.readouterr().err
