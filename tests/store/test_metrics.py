"""metrics.jsonl and the event files, read back with TensorBoard's own readers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, event_accumulator, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

from txjax.store import metrics as metrics_module
from txjax.store.files import StoreError
from txjax.store.metrics import Metrics, read_rows

FullDisk = Callable[[int], AbstractContextManager[None]]


def started(folder: Path, resume_step: int | None = None, **hyperparameters: Any) -> Metrics:
    return Metrics(folder, resume_step=resume_step, hyperparameters=hyperparameters)


def shown(folder: Path, name: str) -> list[tuple[int, float]]:
    """A curve as TensorBoard draws it, the same through both of its readers."""
    old = event_accumulator.EventAccumulator(str(folder / "tb"), size_guidance={event_accumulator.SCALARS: 0})
    old.Reload()
    curve = [(event.step, event.value) for event in old.Scalars(name)]
    new = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0})
    new.AddRunsFromDirectory(str(folder)).Reload()
    assert repr([(event.step, event.tensor_proto.float_val[0]) for event in new.Tensors("tb", name)]) == repr(curve)
    return curve


def rows(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl by a strict reader: NaN is no JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return [json.loads(line, parse_constant=refuse) for line in (folder / "metrics.jsonl").read_text().splitlines()]


# ---------------------------------------------------------------- what is written


def test_a_step_is_one_row_whatever_came_when(tmp_path: Path):
    with started(tmp_path) as metrics:
        metrics.scalars(10, {"train/loss": np.float32(0.1), "val/tokens": 7})
        metrics.scalars(10, {"val/loss": jnp.asarray(2.5)})
        metrics.scalars(20, {"train/loss": 1.5})
    assert rows(tmp_path) == [
        {"step": 10, "train/loss": float(np.float32(0.1)), "val/tokens": 7, "val/loss": 2.5},
        {"step": 20, "train/loss": 1.5},
    ]
    assert shown(tmp_path, "train/loss") == [(10, pytest.approx(0.1)), (20, 1.5)]
    assert shown(tmp_path, "val/loss") == [(10, 2.5)]
    assert read_rows(tmp_path / "metrics.jsonl") == rows(tmp_path)


def test_what_is_not_finite_is_null_in_json_and_itself_in_tensorboard(tmp_path: Path):
    with started(tmp_path) as metrics:
        for step, value in enumerate((math.nan, math.inf, -math.inf)):
            metrics.scalars(step, {"train/loss": value})
    assert [row["train/loss"] for row in rows(tmp_path)] == [None, None, None]
    assert repr([value for _, value in shown(tmp_path, "train/loss")]) == "[nan, inf, -inf]"


def test_flush_puts_everything_on_the_disk(tmp_path: Path):
    metrics = started(tmp_path)
    for step in range(1, 30):
        metrics.scalars(step, {"train/loss": step})
    metrics.flush()
    assert [row["step"] for row in rows(tmp_path)] == list(range(1, 30))
    assert shown(tmp_path, "train/loss") == [(step, step) for step in range(1, 30)]
    metrics.close()
    metrics.close()


def test_texts_are_shown_as_they_are(tmp_path: Path):
    with started(tmp_path) as metrics:
        metrics.text(5, "sample", "# no heading\n你好 🙂")
    reader = event_accumulator.EventAccumulator(str(tmp_path / "tb"))
    reader.Reload()
    assert reader.SummaryMetadata("sample").plugin_data.plugin_name == "text"
    (event,) = reader.Tensors("sample")
    assert event.step == 5
    assert event.tensor_proto.string_val[0].decode() == "    # no heading\n    你好 🙂\n"


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with Metrics(None, resume_step=3, hyperparameters={}) as metrics:
        metrics.scalars(4, {"train/loss": 1.0})
        metrics.text(4, "sample", "text")
        metrics.flush()
    assert list(tmp_path.iterdir()) == []


def test_without_tensorboard_there_is_the_jsonl(tmp_path: Path):
    with Metrics(tmp_path, resume_step=None, hyperparameters={}, tensorboard=False) as metrics:
        metrics.scalars(1, {"train/loss": 1.0})
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_full_disk_is_an_error_from_the_call_that_tried(tmp_path: Path, full_disk: FullDisk):
    metrics = started(tmp_path)
    with full_disk(2000):
        with pytest.raises(StoreError, match=r"cannot write .*(metrics.jsonl|tfevents.*): File too large"):
            for step in range(100):
                metrics.scalars(step, {"train/loss": 1.0})
            metrics.flush()
        with pytest.raises(StoreError, match="File too large"):
            metrics.close()
        metrics.close()


def test_a_full_disk_does_not_hide_the_error_on_its_way_out(
    tmp_path: Path, full_disk: FullDisk, caplog: pytest.LogCaptureFixture
):
    metrics = started(tmp_path)
    with pytest.raises(ZeroDivisionError), full_disk(100), metrics:
        metrics.scalars(1, {f"train/{number}": 1.0 for number in range(100)})
        raise ZeroDivisionError
    assert "File too large" in caplog.text


# ---------------------------------------------------------------- after a kill


@pytest.mark.bug("lanpa/tensorboardX#185", "tensorflow/tensorboard#1272", "Motphys/UniLab#441")
@pytest.mark.parametrize("clock", ["runs on", "stands still", "goes back"])
def test_after_several_resumes_every_step_stands_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: str):
    time = {"runs on": lambda n: 1e9 + n, "stands still": lambda n: 1e9, "goes back": lambda n: 1e9 - n}[clock]
    # (goes on from, runs to); None: killed before there was a checkpoint
    sessions: list[tuple[int | None, int]] = [(None, 7), (None, 17), (10, 29), (20, 21), (20, 33), (30, 40)]
    for number, (resume_step, last) in enumerate(sessions):
        monkeypatch.setattr(
            metrics_module, "time", SimpleNamespace(time=lambda n=number: time(n), monotonic=lambda: 0.0)
        )
        metrics = started(tmp_path, resume_step, lr=0.1)
        for step in range((resume_step or 0) + 1, last + 1):
            metrics.scalars(step, {"train/loss": number})
            if step % 10 == 0:
                metrics.scalars(step, {"val/loss": number})
                metrics.flush()
                metrics.text(step, "sample", str(number))
        metrics.close()  # everything lies on the disk: the most that there can be to remove
    by_step = {
        step: number for number, (start, last) in enumerate(sessions) for step in range((start or 0) + 1, last + 1)
    }
    curve = [(step, by_step[step]) for step in range(1, 41)]
    assert [(row["step"], row["train/loss"]) for row in rows(tmp_path)] == curve
    assert shown(tmp_path, "train/loss") == curve
    assert shown(tmp_path, "val/loss") == [(step, by_step[step]) for step in (10, 20, 30, 40)]


def test_what_lies_before_the_checkpoint_stays_and_the_rest_goes_when_it_is_opened(tmp_path: Path):
    with started(tmp_path) as metrics:
        for step in range(1, 8):
            metrics.scalars(step, {"train/loss": step})
    started(tmp_path, 4).close()
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    assert [step for step, _ in shown(tmp_path, "train/loss")] == [1, 2, 3, 4]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_half_a_line_is_dropped_and_the_rest_kept(tmp_path: Path, cut: int):
    with started(tmp_path) as metrics:
        for step in range(1, 6):
            metrics.scalars(step, {"train/loss": step})
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[: -1 - cut])
    assert [row["step"] for row in read_rows(path)] == [1, 2, 3, 4]
    with started(tmp_path, 4) as metrics:
        metrics.scalars(5, {"train/loss": 5})
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3, 4, 5]


def test_half_a_record_does_not_hide_what_follows(tmp_path: Path):
    with started(tmp_path) as metrics:
        for step in range(1, 6):
            metrics.scalars(step, {"train/loss": step})
    (events,) = (tmp_path / "tb").iterdir()
    events.write_bytes(events.read_bytes()[:-7])
    with started(tmp_path, 3) as metrics:
        for step in (4, 5, 6):
            metrics.scalars(step, {"train/loss": step})
    assert shown(tmp_path, "train/loss") == [(step, step) for step in range(1, 7)]


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(StoreError, match=r"metrics.jsonl, line 2, is no JSON"):
        read_rows(tmp_path / "metrics.jsonl")


# ---------------------------------------------------------------- hyperparameters


def hparams_tab(folder: Path) -> dict[str, tuple[Mapping[str, Any], Mapping[str, float]]]:
    """By run: the hyperparameters and the last scalars that TensorBoard's HParams tab lists."""
    runs = plugin_event_multiplexer.EventMultiplexer()
    runs.AddRunsFromDirectory(str(folder)).Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(folder))
    tab = backend_context.Context(base_plugin.TBContext(logdir=str(folder), data_provider=provider))
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0,
        slice_size=100,
        allowed_statuses=list(api_pb2.Status.values()),
        col_params=[api_pb2.ColParams(metric=api_pb2.MetricName(tag="val/loss"))],
        include_metrics=True,
    )
    answer = list_session_groups.Handler(context.RequestContext(), tab, "", request).run()
    listed = {}
    for group in answer.session_groups:
        (session,) = group.sessions
        values = {name: getattr(value, value.WhichOneof("kind")) for name, value in group.hparams.items()}
        listed[session.name] = (values, {value.name.tag: value.value for value in session.metric_values})
    return listed


@pytest.mark.bug("pytorch/pytorch#39250", "lanpa/tensorboardX#670", "tensorflow/tensorboard#5596")
def test_hyperparameters_stand_beside_the_curves_of_their_own_run(tmp_path: Path):
    configs: dict[str, dict[str, Any]] = {
        "a": {"lr": 0.1, "causal": True, "scale": "rsqrt", "clip": None, "betas": [0.9, 0.95]},
        "b": {"lr": 1, "causal": False, "theta": 10000.0},
        "c": {"lr": 0.3, "first_layers": []},
    }
    for number, (name, config) in enumerate(configs.items()):
        (tmp_path / name).mkdir()
        for resume_step in (None, 1):  # a resumed run is one run still
            with started(tmp_path / name, resume_step, **config) as metrics:
                metrics.scalars((resume_step or 0) + 1, {"val/loss": number + 0.5, "train/loss": 9.0})
    tab = hparams_tab(tmp_path)
    assert {name: metrics["val/loss"] for name, (_, metrics) in tab.items()} == {"a/tb": 0.5, "b/tb": 1.5, "c/tb": 2.5}
    values = {name: dict(values) for name, (values, _) in tab.items()}
    assert values["a/tb"] == {"lr": 0.1, "causal": True, "scale": "rsqrt", "clip": "none", "betas": "[0.9, 0.95]"}
    assert values["b/tb"] == {"lr": 1.0, "causal": False, "theta": 10000.0}
    assert values["c/tb"] == {"lr": 0.3, "first_layers": "[]"}
