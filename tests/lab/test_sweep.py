"""A sweep: its points, its cells as runs, and what a failure, a kill, another worker and another sweep do to it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_run import column, config_of, end, start, until

from txjax.cli import main
from txjax.config.flags import load
from txjax.lab.cells import Result
from txjax.lab.sweep import chain, grid, log_uniform, product, random, uniform, zip
from txjax.lab.sweep.combinators import Point
from txjax.lab.sweep.course import plan
from txjax.lab.sweep.reading import read_sweep
from txjax.schema import ConfigError
from txjax.store import Run

# ---------------------------------------------------------------- points

choices = st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(), min_size=1, max_size=3), max_size=3)


@given(choices, choices)
def test_a_product_of_grids_is_the_grid_of_both(one: dict[str, list[int]], other: dict[str, list[int]]):
    if one.keys() & other.keys():
        with pytest.raises(ConfigError, match="is set by two"):
            product(grid(one), grid(other))
    else:
        assert product(grid(one), grid(other)) == grid(one | other)


def test_zip_pairs_and_chain_goes_on():
    pairs = zip({"a": (1, 2), "b": (3, 4)})
    assert pairs == [{"a": 1, "b": 3}, {"a": 2, "b": 4}]
    assert chain(pairs, grid({"a": (5,)})) == [*pairs, {"a": 5}]
    with pytest.raises(ConfigError, match="a has 2, b has 1"):
        zip({"a": (1, 2), "b": (3,)})


def test_random_points_come_from_their_ranges_and_again_the_same():
    space = {"a": log_uniform(1e-4, 1.0), "b": uniform(-1, 3), "c": ("x", "y")}
    points = random(space, points=400, seed=3)
    assert points == random(space, points=400, seed=3) != random(space, points=400, seed=4)
    assert all(1e-4 <= p["a"] <= 1 and -1 <= p["b"] <= 3 and p["c"] in "xy" for p in points)
    decade = [sum(10.0**d <= p["a"] < 10.0 ** (d + 1) for p in points) for d in range(-4, 0)]
    assert min(decade) > 60  # of 100 each; 60 is 4.6 standard deviations away
    assert 150 < sum(p["c"] == "x" for p in points) < 250


@pytest.mark.parametrize("make", [lambda: log_uniform(0, 1), lambda: uniform(2, 1), lambda: grid({"a": ()})])
def test_a_space_that_cannot_be_is_refused(make):
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("a=1,2;b=x", [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]),
        ("a=(1,2),(3,4)", [{"a": "(1,2)"}, {"a": "(3,4)"}]),
        ("zip({'a': (1, 2), 'b': [3, 4]})", [{"a": 1, "b": 3}, {"a": 2, "b": 4}]),
        ("chain(grid({'a': (1,)}), product(grid({'b': (2,)}), grid({'c': (-3,)})))", [{"a": 1}, {"b": 2, "c": -3}]),
        ("random({'a': log_uniform(1, 2)}, points=2)", random({"a": log_uniform(1, 2)}, points=2)),
    ],
)
def test_the_command_line_says_the_same_as_a_file(text: str, points: list[Point], tmp_path: Path):
    found = read_sweep(text)
    assert (grid(found) if isinstance(found, dict) else found) == points
    file = tmp_path / "points.py"
    file.write_text(f"from txjax.lab.sweep import *\n\ndef get_sweep():\n    return {points!r}\n")
    assert read_sweep(str(file)) == points


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim.learning_rte=1,2", "optim.learning_rte is not a field, did you mean 'learning_rate'"),
        ("optim.learning_rate=1e-3,fast", "optim.learning_rate must be float, got 'fast'"),
        ("model.position=rope,alibbi", "model.position must be one of .*did you mean 'alibi'"),
        ("train.steps=-1", "steps must be at least 1"),
        ("", "--sweep is empty"),
        ("random({'train.seed': (1, 2)}, points=0)", "has no points"),
        ("train.seed=", "train.seed has no values"),
        ("train.seed", "must be PATH=VALUE"),
        ("train.seed=1;train.seed=2", "stands there twice"),
        ("optim.learning_rate=log_uniform(1e-4,1e-2)", "has a range and no values"),
        ("girt({'train.seed': (1,)})", "must be one of grid.*did you mean 'grid'"),
        ("grid({'train.seed': __import__('os')})", "must be one of grid"),
        ("grid({'train.seed': (1,)}, 2)", "--sweep: grid"),
        ("missing.py", "there is no file 'missing.py'"),
    ],
)
@pytest.mark.bug("unslothai/unsloth#10452", "pfnet/pytorch-pfn-extras#302", "brentyi/tyro#370")
def test_a_mistake_is_one_sentence_before_anything_runs(text: str, message: str, tmp_path: Path, capsys):
    code = main(["sweep", config_of(tmp_path), f"--sweep={text}", f"--workdir={tmp_path / 'out'}"])
    said = capsys.readouterr().err
    assert code == 2 and re.search(message, said) and len(said.strip().splitlines()) == 1, said
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------- cells

RATES = "optim.learning_rate=1e-3,3e-2"


def sweep(folder: Path, text: str, *more: str) -> int:
    return main(["sweep", config_of(folder), f"--sweep={text}", f"--workdir={folder / 'out'}", *more])


def table(folder: Path) -> dict[str, dict]:
    return {row["cell"]: row for row in json.loads((folder / "out" / "results" / "table.json").read_text())}


def results(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "out" / "cells").glob("*/result.json")}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    assert sweep(folder, f"{RATES};train.seed=0,1") == 0
    return folder


def test_every_cell_is_a_run_and_a_row(done: Path):
    rows = table(done)
    assert len(rows) == 4 and {row["state"] for row in rows.values()} == {"finished"}
    points = {(row["point"]["optim.learning_rate"], row["point"]["train.seed"]) for row in rows.values()}
    assert points == {(1e-3, 0), (1e-3, 1), (3e-2, 0), (3e-2, 1)}
    for name, row in rows.items():
        run = Run.read(done / "out" / "cells" / name)
        assert run.saved.latest() == 20 and run.config.optim.learning_rate == row["point"]["optim.learning_rate"]
        assert row["config"]["optim.learning_rate"] == row["point"]["optim.learning_rate"]
        assert row["metrics"]["val/loss"] == column(run.folder, "val/loss")[20]
    with open(done / "out" / "results" / "table.csv", newline="") as file:
        lines = {line["cell"]: line for line in csv.DictReader(file)}
    assert {name: float(line["val/loss"]) for name, line in lines.items()} == {
        name: row["metrics"]["val/loss"] for name, row in rows.items()
    }
    assert all(line["config.train.seed"] and line["state"] == "finished" for line in lines.values())


def test_a_cell_is_what_train_makes_of_its_config(done: Path, tmp_path: Path):
    flags = ("--config.optim.learning_rate=3e-2", "--config.train.seed=1")
    config = f"--config={Path(__file__).parents[1] / 'small_config.py'}:{done / 'text.txt'}"
    assert main(["train", config, f"--workdir={tmp_path / 'run'}", *flags]) == 0
    (cell,) = (done / "out" / "cells").glob("learning_rate=0.03-seed=1-*")
    assert column(cell, "train/loss") == column(tmp_path / "run", "train/loss")
    assert column(cell, "val/loss") == column(tmp_path / "run", "val/loss")


def test_again_nothing_is_run_and_the_best_are_listed(done: Path, capsys):
    before = results(done)
    assert sweep(done, f"{RATES};train.seed=0,1") == 0
    assert results(done) == before
    said = capsys.readouterr().out
    best = min(table(done).values(), key=lambda row: row["metrics"]["val/loss"])
    lines = said[said.index("val/loss") :].splitlines()
    assert best["cell"] in lines[1] and f"{best['metrics']['val/loss']:.4f}" in lines[1]


@pytest.mark.bug("T029", "ray-project/ray#30584")
def test_another_sweep_in_its_folder_is_refused_with_what_differs(done: Path, capsys):
    before = results(done)
    assert sweep(done, "optim.learning_rate=1e-3,5e-2;train.seed=0,1") == 2
    assert "2 points are new, such as {'optim.learning_rate': 0.05" in capsys.readouterr().err
    assert sweep(done, f"{RATES};train.seed=0,1", "--config.model.width=32") == 2
    assert "model.width 16 -> 32" in capsys.readouterr().err
    assert results(done) == before


@pytest.mark.bug("optuna/optuna#6283", "optuna/optuna#485", "ray-project/ray#16891", "neptune-ai/neptune-optuna#4")
def test_a_cell_that_fails_keeps_its_traceback_takes_no_other_and_is_retried_on_request(tmp_path: Path, capsys):
    config_of(tmp_path)
    there, missing = tmp_path / "text.txt", tmp_path / "later.txt"
    text = f"data.source={missing},{there}"
    assert sweep(tmp_path, text) == 1
    states = {row["state"] for row in table(tmp_path).values()}
    assert states == {"failed", "finished"}
    (failed,) = (row for row in table(tmp_path).values() if row["state"] == "failed")
    kept = Result.load(tmp_path / "out" / "cells" / failed["cell"])
    assert kept and kept.error and "Traceback" in kept.error and "later.txt" in failed["error"]
    assert f"failed     {failed['cell']}" in capsys.readouterr().out
    missing.write_text(there.read_text())
    before = results(tmp_path)
    assert sweep(tmp_path, text) == 1 and results(tmp_path) == before  # not without being asked
    assert sweep(tmp_path, text, "--retry") == 0
    assert {row["state"] for row in table(tmp_path).values()} == {"finished"}
    assert len([path for path, time in results(tmp_path).items() if before.get(path) != time]) == 1


def test_a_cell_that_another_worker_has_is_left_to_it(tmp_path: Path):
    config = load(config_of(tmp_path).removeprefix("--config="))
    course = plan(config, RATES, tmp_path / "out", "x", None, 0)
    course.sweep.open()
    first, second = course.cells()
    with course.sweep.claimed(first.id) as mine:
        assert mine
        assert sweep(tmp_path, RATES) == 0
        rows = table(tmp_path)
        assert (rows[first.id]["state"], rows[second.id]["state"]) == ("running", "finished")
    assert course.sweep.state(first.id) == "waiting"
    Run.open(course.sweep.cells / first.id, config, fingerprint=0).close()
    assert course.sweep.state(first.id) == "interrupted"


@pytest.mark.slow
@pytest.mark.bug("T028", "optuna/optuna#2705", "ray-project/ray#30584")
def test_killed_as_a_whole_and_run_again_only_the_missing_cells_run(tmp_path: Path):
    command = ["sweep", config_of(tmp_path), "--sweep=train.seed=0,1,2,3,4,5", f"--workdir={tmp_path / 'out'}"]
    process = start(*command)
    until(lambda: len(results(tmp_path)) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    end(process)
    before = results(tmp_path)
    assert 2 <= len(before) < 6
    again = end(start(*command))
    assert again.code == 0, again.err
    assert len(results(tmp_path)) == 6 and before.items() <= results(tmp_path).items()
    assert {row["state"] for row in table(tmp_path).values()} == {"finished"}


@pytest.mark.long
def test_two_workers_share_the_cells_and_each_is_run_once(tmp_path: Path):
    command = ["sweep", config_of(tmp_path), "--sweep=train.seed=0,1,2,3,4,5", f"--workdir={tmp_path / 'out'}"]
    ended = end(start(*command, "--workers=2"))
    assert ended.code == 0, ended.err
    assert {row["state"] for row in table(tmp_path).values()} == {"finished"}
    said = [line for line in ended.out.splitlines() if line.startswith("finished")]
    assert len(said) == 6  # a worker says what it ended
    starts = [Run.read(path.parent).info["starts"] for path in results(tmp_path)]
    assert {len(some) for some in starts} == {1}
    assert len({some[0]["process"] for some in starts}) == 2
