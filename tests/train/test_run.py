"""Whole runs in this process, on its eight devices: what they evaluate, write, and refuse."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path

import jax
import numpy as np
import pytest
from small_run import assert_same_checkpoint, column, config_of, scalars

from txjax.cli import main
from txjax.config import Train
from txjax.store import Run
from txjax.train import watch as watch_module
from txjax.train.run import patience_of
from txjax.train.tracing import traced

NEVER = ("--config.train.evaluate_every=none", "--config.train.checkpoint_every=none", "--config.log.every=20")


@pytest.fixture
def train(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """`txjax train` of the small config into a folder, with these flags, must end with this code: its output."""
    config = config_of(tmp_path)

    def run(folder: str, *flags: str, code: int = 0) -> str:
        ended = main(["train", config, f"--workdir={tmp_path / folder}", *flags])
        said = "".join(capsys.readouterr())
        assert ended == code, said
        return said

    return run


# ---------------------------------------------------------------- evaluation


def validation_tokens(folder: Path) -> int:
    """Characters of the held-out tenth, less the first, which nothing predicts."""
    length = len((folder / "text.txt").read_text())
    return length - int(length * 0.9) - 1


@pytest.mark.bug("goodfire-ai/spd#740", "jax-ml/jax#7144", "talmolab/track-mjx#192")
@pytest.mark.bug("ml-explore/mlx-lm#1855", "google/uncertainty-baselines#303")
def test_how_often_a_run_evaluates_logs_and_saves_changes_no_bit_of_what_it_learns(tmp_path: Path, train):
    train("never", *NEVER)
    often = ("--config.train.evaluate_every=5", "--config.train.checkpoint_every=7", "--config.log.samples=4")
    train("often", *often, "--config.train.evaluate_batch_size=11", "--config.log.sample_tokens=3")
    for folder in ("never", "often"):  # the curves' metadata aside, the state holds everything
        assert Run.read(tmp_path / folder).saved.latest() == 20
    assert_same_checkpoint(tmp_path / "never", tmp_path / "often", 20)
    assert list(column(tmp_path / "often", "val/loss")) == [5, 10, 15, 20]
    losses = [column(tmp_path / folder, "val/loss")[20] for folder in ("never", "often")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)  # in one batch and in three
    assert set(column(tmp_path / "often", "val/tokens").values()) == {validation_tokens(tmp_path)}


def test_eval_gives_the_loss_of_the_run_and_of_any_of_its_checkpoints(
    tmp_path: Path, train, capsys: pytest.CaptureFixture[str]
):
    train("run", "--config.train.evaluate_every=10", "--config.train.checkpoint_every=10")
    for step, option in ((20, ()), (10, ("--step=10",)), (20, ("--step=best",))):
        assert main(["eval", f"--workdir={tmp_path / 'run'}", *option]) == 0
        first, *figures = capsys.readouterr().out.splitlines()
        assert first == f"step {step} of {tmp_path / 'run'}"
        found = {name: float(value.replace(",", "")) for name, value in map(str.split, figures)}
        for name, value in found.items():
            assert value == pytest.approx(column(tmp_path / "run", name)[step], abs=6e-5)  # as printed
        # characters of this text are bytes
        assert found["val/bits_per_byte"] == pytest.approx(found["val/loss"] / math.log(2), abs=2e-4)
        assert found["val/perplexity"] == pytest.approx(math.exp(found["val/loss"]), rel=1e-4)
        assert found["val/tokens"] == validation_tokens(tmp_path)


# ---------------------------------------------------------------- its folder


@pytest.mark.bug("AI-Hypercomputer/maxtext#3452", "google-research/bert#1293", "AI-Hypercomputer/maxtext#2883")
def test_metrics_have_their_names_and_count_optimizer_steps_under_accumulation(tmp_path: Path, train):
    schedule = ("--config.optim.schedule=linear", "--config.optim.schedule.linear.warmup=5")
    accumulation = ("--config.train.accumulation=2", "--config.train.batch_size=16")
    intervals = ("--config.train.evaluate_every=10", "--config.train.checkpoint_every=8", "--config.log.every=4")
    train("run", *schedule, *accumulation, *intervals)
    run = Run.read(tmp_path / "run")
    rows = run.rows()
    assert [row["step"] for row in rows] == [4, 8, 10, 12, 16, 20]
    assert run.saved.steps() == [16, 20] and run.saved.restore(20).data["iterator"] == {"next_index": 20}
    training = {
        "train/loss", "train/learning_rate", "train/grad_norm", "train/update_to_weight", "train/skipped_steps",
        "train/tokens_per_second", "train/mfu", "train/memory_gib",
    }  # fmt: skip
    validation = {"val/loss", "val/accuracy", "val/perplexity", "val/bits_per_byte", "val/tokens"}
    for row in rows:
        names = training | (validation if row["step"] in (10, 20) else set())
        assert row.keys() - {"step"} == names | ({"train/compile_seconds"} if row["step"] == 4 else set())
    for name in training | validation:
        want = {step: np.float32(value) for step, value in column(tmp_path / "run", name).items()}
        assert scalars(tmp_path / "run", name) == want
    # the rate that each of these steps used: a warm-up to 0.01 at step 5, from there a line to 0 at step 20
    rates = {4: 0.008, 8: 0.008, 10: 0.01 * 10 / 15, 12: 0.01 * 8 / 15, 16: 0.01 * 4 / 15, 20: 0.0}
    assert column(tmp_path / "run", "train/learning_rate") == pytest.approx(rates, abs=1e-8)


def test_samples_come_at_the_start_with_evaluations_and_when_asked_for(tmp_path: Path, train):
    flags = ("--config.train.evaluate_every=8", "--config.log.samples=5", "--config.log.sample_tokens=6")
    train("run", *flags, "--config.log.prompt=the cat")
    texts = {int(p.stem): p.read_text() for p in (tmp_path / "run" / "samples").iterdir()}
    assert sorted(texts) == [0, 5, 8, 10, 15, 16, 20]
    assert all(text.startswith("the cat") and len(text) == 7 + 6 for text in texts.values())


def test_a_profiler_trace_of_the_steps_asked_for_lies_where_tensorboard_looks(tmp_path: Path, train):
    train("run", "--config.log.profile=(4,2)")
    (trace,) = (tmp_path / "run" / "tb" / "plugins" / "profile").glob("*/*.xplane.pb")
    calls = trace.read_bytes().count(b"train_step")
    assert calls
    out = train("other", "--config.log.profile=(0,2)", code=2)
    assert "log.profile must be a first step and a number of steps, both at least 1" in out


@pytest.mark.parametrize(
    ("window", "start", "wanted"),
    [
        ((3, 2), 0, [1, 2, "start", 3, 4, "stop", 5, 6]),
        ((5, 9), 0, [1, 2, 3, 4, "start", 5, 6, "stop"]),  # the run ends first
        ((3, 2), 3, [4, 5, 6]),  # resumed past it
        (None, 0, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_profiler_runs_in_its_window_and_never_outlives_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int] | None, start: int, wanted: list[object]
):
    events: list[object] = []
    monkeypatch.setattr(jax.profiler, "start_trace", lambda folder: events.append("start"))
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: events.append("stop"))
    with traced(lambda state, step: (state, events.append(step)), start, window, tmp_path) as take_step:  # type: ignore
        for step in range(start + 1, 7):
            take_step({}, step)  # type: ignore[arg-type]
    assert events == wanted


@pytest.mark.bug("google/orbax#2657", "google/flax#1120")
def test_a_finished_run_started_again_says_so_and_changes_nothing(tmp_path: Path, train):
    train("run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    out = train("run")
    assert "resumed from step 20" in out
    assert "nothing is left to train" in out
    assert "compiling" not in out
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


# ---------------------------------------------------------------- early ends


@pytest.mark.parametrize(("by", "better"), [("loss", "lower val/loss"), ("accuracy", "higher val/accuracy")])
def test_early_stopping_ends_a_run_for_good(tmp_path: Path, train, by: str, better: str):
    flags = ("--config.optim.learning_rate=0", "--config.train.evaluate_every=3", "--config.train.patience=2")
    flags = (*flags, f"--config.train.best_by={by}")
    out = train("run", *flags)
    assert f"stopped at step 9: no {better} in 2 evaluations" in out
    assert Run.read(tmp_path / "run").saved.steps() == [9]
    out = train("run", *flags)
    assert "nothing is left to train" in out
    assert f"stopped at step 9: no {better} in 2 evaluations" in out
    assert list(column(tmp_path / "run", "val/loss")) == [3, 6, 9]


def test_a_stopped_run_remembers_its_patience(tmp_path: Path, train, monkeypatch: pytest.MonkeyPatch):
    flags = ("--config.optim.learning_rate=0", "--config.train.evaluate_every=3", "--config.train.patience=2")
    with monkeypatch.context() as patch:
        patch.setattr(watch_module.Watch, "stepped", lambda _, step: step == 7 and os.kill(os.getpid(), signal.SIGTERM))
        out = train("run", *flags, code=75)
    assert "stopped by a signal, saved at step 7: the same command goes on from there" in out
    out = train("run", *flags)
    assert "resumed from step 7" in out
    assert "stopped at step 9: no lower val/loss in 2 evaluations" in out


def test_patience_counts_what_lies_before_the_checkpoint_and_a_loss_that_is_no_number(tmp_path: Path, train):
    train("run", "--config.train.patience=3")
    losses = {5: 2.0, 10: 1.5, 15: None, 20: 1.5, 25: 1.0}
    rows = [{"step": step, "train/loss": 1.0, "val/loss": loss} for step, loss in losses.items()]
    (tmp_path / "run" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = Run.read(tmp_path / "run")
    assert run.config.train == Train(steps=20, batch_size=8, evaluate_every=None, checkpoint_every=None, patience=3)
    assert (patience_of(run, 20).best, patience_of(run, 20).stale) == (1.5, 2)
    assert (patience_of(run, 25).best, patience_of(run, 25).stale) == (1.0, 0)
    assert not patience_of(run, None).over


def test_the_best_and_patience_go_by_accuracy_where_asked_to(tmp_path: Path, train):
    """Five checkpoints are kept, so that the choice is among all."""
    often = ("--config.train.evaluate_every=4", "--config.train.checkpoint_every=4", "--config.train.keep_last=5")
    train("run", *often, "--config.train.best_by=accuracy", "--config.train.patience=9")
    run, found = Run.read(tmp_path / "run"), column(tmp_path / "run", "val/accuracy")
    assert list(found) == run.saved.steps()
    assert run.saved.best() == max(found, key=lambda step: (found[step], step))
    assert run.saved.metric(4) == pytest.approx(1 - found[4])
    assert patience_of(run, 20).best == pytest.approx(1 - max(found.values()))


# ---------------------------------------------------------------- what it refuses


def test_a_folder_of_another_config_or_other_data_is_refused_with_the_difference(tmp_path: Path, train):
    train("run")
    other = ("--config.optim.learning_rate=0.5", "--config.model.position=rope", "--config.log.every=2")
    out = train("run", *other, code=2)
    assert "holds a run of another config" in out
    assert "\n  optim.learning_rate: 0.01 -> 0.5\n" in out
    assert "\n  model.position.kind: learned -> rope\n" in out
    assert "none -> none" not in out  # what rope has and learned positions do not
    assert "log.every" not in out  # it may change
    (tmp_path / "text.txt").write_text((tmp_path / "text.txt").read_text().replace("cat", "dog"))
    out = train("run", code=2)
    assert "was trained on other data" in out
    assert "compiling" not in out


@pytest.mark.bug("jax-ml/jax#27808", "marin-community/levanter#429", "keras-team/keras#21167")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["train.batch_size=12"], "train.batch_size=12 does not divide over 8 devices"),
        (["train.batch_size=8", "train.accumulation=2"], "does not divide over 8 devices times train.accumulation=2"),
        (["mesh.data=3"], "mesh.data=3, mesh.fsdp=1, mesh.tensor=1 do not make 8 devices: their product must be 8"),
        (["mesh.fsdp=8", "model.width=20"], "embed=20 does not divide over mesh.fsdp=8"),
        (["mesh.tensor=4"], "vocab=18 does not divide over mesh.tensor=4: change one of them, or map vocab to none"),
    ],
)
def test_sizes_that_devices_do_not_divide_are_one_sentence_and_leave_no_folder(
    tmp_path: Path, train, flags: list[str], said: str
):
    out = train("run", *(f"--config.{flag}" for flag in flags), code=2)
    assert said in out
    assert out.startswith("txjax train: ") and out.count("\n") == 1
    assert not (tmp_path / "run").exists()
