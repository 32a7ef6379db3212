"""A study from its file to its verdicts, as its user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest
from small_run import Ended, config_of, end, here, session, start, txjax, until

STUDY = """
from txjax.lab import Prediction, Study, area_under, difference

def get_study():
    return Study(
        question="Does Post-LN start slower?",
        base={base!r},
        factors={{"model.norm_placement": ("pre", "post")}},
        metric=area_under("train/loss"),
        tuned={{"optim.learning_rate": (3e-3, 1e-2, 3e-2)}},
        tuning_seeds=1,
        tiers={{"cpu": {{"train.steps": 5}}}},
        predictions=[Prediction("slower", difference("post", "pre"), margin=0.01, claim="C47")],
    )
"""


TWO_THINGS = """{{"arm": {{
    "pre": {{"model.norm_placement": "pre"}}, "post": {{"model.norm_placement": "post", "model.head": "linear"}},
}}}}"""


def write(folder: Path, text: str = STUDY) -> Path:
    base = config_of(folder).removeprefix("--config=")
    path = folder / "norms.py"
    path.write_text(textwrap.dedent(text).format(base=base))
    return path


def ablate(folder: Path, study: Path, *more: str) -> list[Any]:
    return ["ablate", study, f"--workdir={folder / 'out'}", *more]


def verdict_lines(ended: Ended) -> list[str]:
    return [line for line in ended.out.splitlines() if line.startswith("verdict: ")]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("study")
    return folder, txjax(*ablate(folder, write(folder)))


def test_it_ends_with_a_verdict(done: tuple[Path, Ended]):
    folder, ended = done
    assert ended.code == 0, ended.err
    (line,) = verdict_lines(ended)
    assert re.match(r"verdict: \w+.* C47 · slower [+-][\d.e-]+ nats \[.*\] · n 8 · 2 layers, d 16, .* 5 steps", line)
    table = json.loads((folder / "out" / "results" / "table.json").read_text())
    report = [row for row in table if row["phase"] == "report"]
    assert sorted({row["seed"] for row in report}) == list(range(8)) and len(report) == 16
    assert {row["seed"] for row in table if row["phase"] == "tuning"} == {1000}  # never among the reported
    assert len({json.dumps(row["tuned"]) for row in report if row["levels"]["model.norm_placement"] == "pre"}) == 1


def test_again_nothing_is_run_and_the_verdict_is_the_same(done: tuple[Path, Ended]):
    folder, first = done
    results = sorted((folder / "out" / "cells").glob("*/result.json"))
    before = {path: path.stat().st_mtime_ns for path in results}
    again = here(*ablate(folder, folder / "norms.py"))
    assert verdict_lines(again) == verdict_lines(first)
    assert {path: path.stat().st_mtime_ns for path in results} == before


def test_a_missing_cell_alone_is_run_again_to_the_same_values(done: tuple[Path, Ended]):
    folder, first = done
    table = (folder / "out" / "results" / "table.json").read_text()
    (lost, *_), kept = (sorted((folder / "out" / "cells").glob(pattern)) for pattern in ("*seed=3*", "*seed=4*"))
    times = [(path / "result.json").stat().st_mtime_ns for path in kept]
    (lost / "result.json").unlink()
    again = txjax(*ablate(folder, folder / "norms.py"))
    assert verdict_lines(again) == verdict_lines(first)
    assert [(path / "result.json").stat().st_mtime_ns for path in kept] == times
    assert without_seconds((folder / "out" / "results" / "table.json").read_text()) == without_seconds(table)


def without_seconds(table: str) -> list[Any]:
    return [row | {"facts": {**row["facts"], "seconds": 0}} for row in json.loads(table)]


def test_a_prediction_edited_after_the_first_run_gets_an_effect_and_no_verdict(done: tuple[Path, Ended]):
    folder, _ = done
    edited = write(folder, STUDY.replace('difference("post", "pre")', 'difference("pre", "post")'))
    ended = here(*ablate(folder, edited))
    (line,) = verdict_lines(ended)
    assert line.startswith("verdict: estimate C47") and "predictions changed after the first run" in line
    write(folder)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tuned=", "tunned=", "unexpected keyword argument 'tunned'"),
        ("norm_placement", "norm_placment", "model.norm_placment is not a field, did you mean 'norm_placement'"),
        ('{{"model.norm_placement": ("pre", "post")}}', TWO_THINGS, "undeclared settings"),
        ('area_under("train/loss")', 'area_under("train/lss")', "a run logs no 'train/lss', did you mean 'train/loss'"),
        ('"train.steps": 5', '"train.steps": 10_000_000', "more than the 15 of its tier: lower train.steps to"),
    ],
    ids=["a misspelt field", "a misspelt path", "arms that differ in two things", "an unknown metric", "too long"],
)  # fmt: skip
def test_a_mistake_in_a_study_is_one_sentence(tmp_path: Path, old: str, new: str, message: str):
    assert old in STUDY
    study = write(tmp_path, STUDY.replace(old, new))
    ended = here(*ablate(tmp_path, study, "--seeds=6"))
    assert ended.code == 2, ended.err
    assert message in ended.err and len(ended.err.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "study.json").exists()  # it may be mended, and has registered nothing


@pytest.mark.long
def test_four_seeds_are_refused_or_give_an_estimate_with_the_reason(tmp_path: Path):
    text = STUDY.replace('tuned={{"optim.learning_rate": (3e-3, 1e-2, 3e-2)}},', "")
    four = ablate(tmp_path, write(tmp_path, text), "--seeds=4")
    refused, ended = session(four, [*four, "--anyway"])
    assert refused.code == 2 and "take --seeds=6, or run it with --anyway" in refused.err
    (line,) = verdict_lines(ended)
    assert line.startswith("verdict: estimate") and "4 seeds, a verdict needs 6" in line


@pytest.mark.long
def test_killed_as_a_group_only_the_missing_cells_run_and_verdicts_are_those_of_an_uninterrupted_run(
    done: tuple[Path, Ended], tmp_path: Path
):
    _, whole = done
    study = write(tmp_path)
    process = start(*ablate(tmp_path, study))
    cells = tmp_path / "out" / "cells"
    until(lambda: len(list(cells.glob("*/result.json"))) >= 9, process)  # past tuning
    os.kill(process.pid, signal.SIGKILL)
    end(process)
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*/result.json")}
    again = txjax(*ablate(tmp_path, study))
    assert [line.split("·")[:3] for line in verdict_lines(again)] == [
        line.split("·")[:3] for line in verdict_lines(whole)
    ]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(cells.glob("*/result.json"))) > len(before)


@pytest.mark.long
def test_two_studies_do_not_mix_in_one_folder(done: tuple[Path, Ended], tmp_path: Path):
    study = write(tmp_path)
    process = start(*ablate(tmp_path, study))
    until((tmp_path / "out" / "study.json").exists, process)
    other = txjax(*ablate(tmp_path, study))
    assert other.code == 2 and "is in use by process" in other.err
    process.send_signal(signal.SIGTERM)
    assert end(process).code == 75
