"""A study in TensorBoard, asked through TensorBoard's own HTTP API."""

from __future__ import annotations

import json
import math
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tensorboard import program

from txjax.config import Config, Data, Log, Optim, Train
from txjax.lab import Prediction, Study, boards, difference
from txjax.lab.ablate import Options, Outcome, ablate
from txjax.lab.statistics import t_interval
from txjax.lab.table import Row
from txjax.models import presets
from txjax.store.metrics import read_rows
from txjax.train.stop import graceful_stop

pytestmark = pytest.mark.long  # a whole study, once for all of them

SEEDS = 2
STEPS = (4, 6, 8, 12)  # logged, or evaluated
NAME = "post: no better (at all)"  # no name of a folder, and no regular expression


def study(text: Path) -> Study:
    return Study(
        question="Is post worse?",
        base=Config(
            model=presets.gpt2(width=8, num_layers=1, num_heads=2, context=8),
            data=Data(source=str(text), tokenizer="char"),
            optim=Optim(learning_rate=1e-2),
            train=Train(steps=12, batch_size=8, evaluate_every=6),
            log=Log(every=4, peak_flops=1e11, probes=("softmax_entropy",)),
        ),
        factors={"model.norm_placement": ("pre", "post")},
        predictions=[Prediction(NAME, difference("post", "pre"))],
        seeds=SEEDS,
    )


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    home = tmp_path_factory.mktemp("study")
    (home / "text.txt").write_text("to be or not to be, that is the question. " * 60)
    with pytest.MonkeyPatch.context() as patch, graceful_stop() as stop:
        patch.setattr("txjax.lab.ablate.load_study", lambda file: study(home / "text.txt"))
        return ablate(home, home / "work", Options(anyway=True), Mock(), stop)


@pytest.fixture(scope="module")
def api(outcome: Outcome) -> Iterator[Any]:
    """A function that asks a TensorBoard over the study's folder."""
    board = program.TensorBoard()
    flags = ["--host=127.0.0.1", "--port=0", "--load_fast=false", "--reload_interval=1"]
    board.configure(argv=["tensorboard", f"--logdir={outcome.folder}", *flags])
    url = board.launch()

    def ask(path: str, body: Any = None, **query: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{url}data/{path}?{urllib.parse.urlencode(query)}", data, headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    until = time.monotonic() + 60  # it reads in a thread of its own
    while len(ask("runs")) < 2 * SEEDS + 3 and time.monotonic() < until:
        time.sleep(0.2)
    yield ask


def cells(outcome: Outcome, arm: str) -> list[Row]:
    return [row for row in outcome.table if row.levels["model.norm_placement"] == arm]


def loss(outcome: Outcome, row: Row, step: int) -> float:
    rows = read_rows(outcome.folder / "cells" / row.facts["cell"] / "metrics.jsonl")
    return next(entry["train/loss"] for entry in rows if entry["step"] == step)


def test_a_run_a_cell_an_arm_and_a_difference(outcome: Outcome, api: Any):
    wanted = {f"cells/{row.facts['cell']}/tb" for row in outcome.table}
    assert len(wanted) == 2 * SEEDS
    assert set(api("runs")) == wanted | {"boards/arm pre", "boards/arm post", "boards/difference post-no-better-at-all"}


@pytest.mark.bug("pytorch/pytorch#184078", "lanpa/tensorboardX#670", "DLR-RM/stable-baselines3#1099")
def test_hyperparameters_stand_beside_each_cell(outcome: Outcome, api: Any):
    asked = {"experimentName": "", "hparamsLimit": 0}
    experiment = api("plugin/hparams/experiment", asked)
    metrics = [info["name"] for info in experiment["metricInfos"]]
    assert {"group": "", "tag": "val/loss"} in metrics
    body = {
        "experimentName": "",
        "startIndex": 0,
        "sliceSize": 100,
        "allowedStatuses": ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"],
        "colParams": [{"metric": name} for name in metrics],
    }
    sessions = api("plugin/hparams/session_groups", body)["sessionGroups"]
    assert len(sessions) == 2 * SEEDS
    found = {(group["hparams"]["model.norm_placement"], group["hparams"]["train.seed"]) for group in sessions}
    assert found == {(arm, float(seed)) for arm in ("pre", "post") for seed in range(SEEDS)}
    for group in sessions:
        values = {value["name"]["tag"]: value["value"] for value in group["metricValues"]}
        assert math.isfinite(values["val/loss"])


def test_an_arm_is_the_mean_of_its_seeds(outcome: Outcome, api: Any):
    points = {
        ending: {step: value for _, step, value in api("plugin/scalars/scalars", run="boards/arm pre", tag=tag)}
        for ending, tag in (
            ("mean", "arms/train/loss"),
            ("low", "arms/train/loss/low"),
            ("high", "arms/train/loss/high"),
        )
    }
    assert tuple(points["mean"]) == STEPS
    for step in STEPS:
        numbers = [loss(outcome, row, step) for row in cells(outcome, "pre")]
        low, high = t_interval(numbers)
        assert points["mean"][step] == pytest.approx(sum(numbers) / SEEDS, rel=1e-6)
        assert points["low"][step] == pytest.approx(low, rel=1e-5)
        assert points["high"][step] == pytest.approx(high, rel=1e-5)


def test_a_difference_is_paired_by_seed(outcome: Outcome, api: Any):
    tag, run = "difference/post-no-better-at-all", "boards/difference post-no-better-at-all"
    mean = {step: value for _, step, value in api("plugin/scalars/scalars", run=run, tag=tag)}
    low = {step: value for _, step, value in api("plugin/scalars/scalars", run=run, tag=f"{tag}/low")}
    post, pre = (sorted(cells(outcome, arm), key=lambda row: row.seed) for arm in ("post", "pre"))
    assert tuple(mean) == tuple(low) == (6, 12)
    for step in mean:
        values = []
        for a, b in zip(post, pre, strict=True):
            rows = (read_rows(outcome.folder / "cells" / row.facts["cell"] / "metrics.jsonl") for row in (a, b))
            one, other = (next(entry["val/loss"] for entry in logged if entry["step"] == step) for logged in rows)
            values.append(one - other)
        assert mean[step] == pytest.approx(sum(values) / SEEDS, rel=1e-4, abs=1e-6)
        assert low[step] == pytest.approx(t_interval(values)[0], rel=1e-4, abs=1e-6)


def test_probes_are_curves_of_their_arm_and_stand_against_theory_in_the_report(outcome: Outcome, api: Any):
    tag = "arms/probe/softmax_entropy/layer_0"
    points = {step: value for _, step, value in api("plugin/scalars/scalars", run="boards/arm pre", tag=tag)}
    assert list(points) == [0, 12]
    logged = [
        read_rows(outcome.folder / "cells" / row.facts["cell"] / "metrics.jsonl") for row in cells(outcome, "pre")
    ]
    for step, value in points.items():
        own = [row["probe/softmax_entropy/layer_0"] for rows in logged for row in rows if row["step"] == step]
        assert value == pytest.approx(sum(own) / SEEDS, rel=1e-5)
    (pre, post) = json.loads((outcome.folder / "results" / "report.json").read_text())["probes"]
    assert pre["arm"] == "pre" and post["arm"] == "post" and list(pre["layers"]["0"]) == ["0", "12"]
    even = sum(math.log(n) for n in range(1, 9)) / 8
    assert pre["theory"] == pytest.approx(even) and 0.9 * even < pre["layers"]["0"]["0"] <= even + 1e-6
    page = (outcome.folder / "report.html").read_text()
    assert "Probes against theory" in page and '<figure id="probes">' in page


def test_custom_scalars_draws_bands(outcome: Outcome, api: Any):
    layout = api("plugin/custom_scalars/layout")
    charts = {category["title"]: category["chart"] for category in layout["category"]}
    assert list(charts) == ["Paired differences", "Arms"]
    assert {"train/loss", "val/loss"} <= {chart["title"] for chart in charts["Arms"]}
    runs = {"Paired differences": "boards/difference post-no-better-at-all", "Arms": "boards/arm post"}
    for title, own in charts.items():
        for chart in own:
            (series,) = chart["margin"]["series"]
            for tag in (series["value"], series["lower"], series["upper"]):
                answer = api("plugin/custom_scalars/scalars", run=runs[title], tag=f"^{tag}$")
                assert answer["regex_valid"] and len(answer["tag_to_events"][tag]) > 1


def test_judged_again_the_boards_are_as_before(outcome: Outcome):
    before = {path.relative_to(outcome.folder) for path in outcome.folder.glob("boards/*")}
    boards.write(outcome)
    assert {path.relative_to(outcome.folder) for path in outcome.folder.glob("boards/*")} == before
    assert len(list(outcome.folder.glob("boards/*/*"))) == len(before)
    assert not list(outcome.folder.glob(".boards*"))


def test_the_report_has_the_curve_of_the_difference(outcome: Outcome):
    page = (outcome.folder / "report.html").read_text()
    assert '<figure id="difference">' in page and "the contrast of val/loss over training" in page
    assert "initial values:" in page  # of the arms' difference
    assert f'href="cells/{urllib.parse.quote(outcome.table.rows[0].facts["cell"])}/"' in page
