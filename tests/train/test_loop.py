"""txjax.train.loop.fit with a step, batches and an observer that only take notes."""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txjax.batch import Batch
from txjax.config import Log, Train
from txjax.train import meter as meter_module
from txjax.train.evaluate import Evaluation
from txjax.train.loop import Outcome, Patience, TrainingStopped, fit
from txjax.train.meter import Interval, Meter
from txjax.train.state import State
from txjax.train.step import StepMetrics
from txjax.train.stop import Stop, graceful_stop


def state_at(step: int) -> State:
    return State(np.int32(step), {}, (), np.zeros(()), np.int32(0), np.int32(0))


@dataclass
class Batches:
    """Batch k holds the number k."""

    position: int = 0

    def __next__(self) -> Batch:
        self.position += 1
        return Batch(tokens=self.position)

    def get_state(self) -> dict[str, Any]:
        return {"position": self.position}


@dataclass
class Recorder:
    """An observer's notes, in order. losses, accuracies: what its evaluations find, one after another; none: 0."""

    losses: list[float] = field(default_factory=lambda: [1.0] * 1000)
    accuracies: list[float] = field(default_factory=list)
    stop_after: int | None = None
    bad: tuple[int, ...] = ()
    stop: Stop = field(default_factory=Stop)
    notes: list[tuple[Any, ...]] = field(default_factory=list)
    in_a_row: int = 0

    def take_step(self, state: State, batch: Batch) -> tuple[State, StepMetrics]:
        step = int(state.step) + 1
        assert batch.tokens == step  # each batch once, in order
        self.in_a_row = self.in_a_row + 1 if step in self.bad else 0
        loss = np.float32(math.nan if step in self.bad else step)
        values = dict.fromkeys(StepMetrics.__dataclass_fields__, np.float32(1))
        metrics = StepMetrics(**values | {"loss": loss, "in_a_row": np.int32(self.in_a_row), "more": {}})
        return replace(state, step=np.int32(step)), metrics

    def stepped(self, step: int) -> None:
        self.notes.append(("step", step))
        self.stop.asked = step == self.stop_after

    def measured(self, interval: Interval) -> None:
        self.notes.append(("measured", interval.step, [step for step, _ in interval.steps]))

    def evaluate(self, step: int, params: Any) -> Evaluation:
        self.notes.append(("evaluate", step))
        return Evaluation(self.losses.pop(0), self.accuracies.pop(0) if self.accuracies else 0.0, 1)

    def sample(self, step: int, params: Any) -> None:
        self.notes.append(("sample", step))

    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None:
        assert step == state.step == data["position"]
        self.notes.append(("save", step, None if evaluation is None else evaluation.loss))

    def of(self, what: str) -> list[Any]:
        """The notes of one kind, without its name; plain values where they hold one."""
        return [note[1] if len(note) == 2 else note[1:] for note in self.notes if note[0] == what]


def run(recorder: Recorder, train: Train, log: Log, start: int = 0, patience: Patience | None = None) -> Outcome:
    patience = patience or Patience(train.patience)
    meter = Meter(1.0, None, 1)
    return fit(
        train, log, state_at(start), Batches(start), recorder.take_step, recorder, meter, patience, recorder.stop
    )


intervals = st.none() | st.integers(1, 12)


@given(
    start=st.integers(0, 20),
    steps=st.integers(1, 40),
    every=st.integers(1, 12),
    evaluate_every=intervals,
    checkpoint_every=intervals,
    samples=intervals,
    stop_after=st.none() | st.integers(1, 40),
)
@pytest.mark.bug("google/orbax#527", "google/flax#1091", "pytorch/torchtitan#1213")
def test_everything_happens_at_its_step_and_every_step_is_measured_once(
    start: int,
    steps: int,
    every: int,
    evaluate_every: int | None,
    checkpoint_every: int | None,
    samples: int | None,
    stop_after: int | None,
):
    last = start + steps
    if stop_after is not None:
        stop_after = min(start + stop_after, last)
    train = Train(steps=last, evaluate_every=evaluate_every, checkpoint_every=checkpoint_every)
    recorder = Recorder(stop_after=stop_after)
    outcome = run(recorder, train, Log(every=every, samples=samples), start)

    end = last if stop_after is None else stop_after
    assert (outcome.step, outcome.reason) == (end, "finished" if end == last else "signal")
    taken = list(range(start + 1, end + 1))
    assert recorder.of("step") == taken

    def due(interval: int | None) -> list[int]:
        return [step for step in taken if (interval and step % interval == 0) or step == last]

    assert recorder.of("evaluate") == due(evaluate_every)
    assert recorder.of("sample") == sorted({*due(evaluate_every), *due(samples)})
    saves = recorder.of("save")
    assert [step for step, _ in saves] == sorted({*due(checkpoint_every), end})
    assert all((loss is not None) == (step in due(evaluate_every)) for step, loss in saves)

    assert [step for _, steps in recorder.of("measured") for step in steps] == taken
    for i, note in enumerate(recorder.notes):
        if note[0] in ("save", "evaluate", "sample"):  # by then all that came before is on the disk
            assert recorder.notes[i - 1][0] != "step"
            known = [step for n in recorder.notes[:i] if n[0] == "measured" for step in n[2]]
            assert known == list(range(start + 1, note[1] + 1))


def test_between_logging_points_nothing_is_fetched_and_then_only_what_is_an_interval_old(
    monkeypatch: pytest.MonkeyPatch,
):
    recorder, fetched = Recorder(), []

    def fetch(intervals: list[list[tuple[int, StepMetrics]]]) -> Any:
        fetched.append((recorder.notes[-1][1], [step for interval in intervals for step, _ in interval]))
        return intervals

    monkeypatch.setattr(meter_module.jax, "device_get", fetch)
    run(recorder, Train(steps=18, evaluate_every=None, checkpoint_every=None), Log(every=5))
    assert [(at, steps) for at, steps in fetched if steps] == [
        (10, [1, 2, 3, 4, 5]),
        (15, [6, 7, 8, 9, 10]),
        (18, [11, 12, 13, 14, 15, 16, 17, 18]),  # the end waits for all
    ]
    assert {at for at, _ in fetched} == {5, 10, 15, 18}


def test_the_host_is_only_a_few_steps_ahead_of_the_device(monkeypatch: pytest.MonkeyPatch):
    """So that a run of slow steps stops soon after its signal."""
    recorder, ahead = Recorder(), []

    def wait(loss: np.float32) -> None:  # a Recorder's loss is the number of its step
        ahead.append(recorder.notes[-1][1] + 1 - int(loss))

    monkeypatch.setattr(meter_module.jax, "block_until_ready", wait)
    run(recorder, Train(steps=50, evaluate_every=None, checkpoint_every=None), Log(every=25))
    assert ahead == [meter_module.AHEAD] * (50 - 2 * meter_module.AHEAD)


# ---------------------------------------------------------------- early stopping


def test_patience_ends_the_run_with_a_checkpoint_after_so_many_evaluations_without_a_lower_loss():
    recorder = Recorder(losses=[3.0, 2.0, 2.0, math.nan, 1.9])
    outcome = run(recorder, Train(steps=100, patience=2, evaluate_every=3, checkpoint_every=50), Log())
    assert (outcome.step, outcome.reason) == (12, "patience")
    assert outcome.evaluation is not None and math.isnan(outcome.evaluation.loss)
    assert [step for step, _ in recorder.of("save")] == [12]


def test_a_lower_loss_starts_the_count_anew_and_the_count_goes_on_where_a_run_left_it():
    recorder = Recorder(losses=[3.0, 3.0, 2.0, 2.5, 2.0])
    assert run(recorder, Train(steps=100, patience=2, evaluate_every=1), Log()).step == 5
    known = Patience(2)
    known.judge([3.0, 3.0])
    assert run(Recorder(losses=[3.0]), Train(steps=100, patience=2, evaluate_every=1), Log(), 2, known).step == 3


def test_patience_by_accuracy_looks_at_no_loss():
    recorder = Recorder(losses=[3.0, 4.0, 2.0, 1.0], accuracies=[0.5, 0.6, 0.6, 0.4])
    train = Train(steps=100, patience=2, evaluate_every=1, best_by="accuracy")
    assert (outcome := run(recorder, train, Log())).step == 4
    assert outcome.reason == "patience"


def test_without_patience_a_run_goes_to_its_end():
    recorder = Recorder(losses=[1.0, *[2.0] * 30])
    assert run(recorder, Train(steps=20, evaluate_every=1), Log()).reason == "finished"


# ---------------------------------------------------------------- steps that are not finite


@pytest.mark.bug("karpathy/nanoGPT#167", "apple/axlearn#297")
@pytest.mark.parametrize("checkpoint_every", [1, 3, 4, 10, None])
def test_a_non_finite_step_stops_the_run_before_the_next_checkpoint(checkpoint_every: int | None):
    recorder = Recorder(bad=(7,))
    train = Train(steps=20, evaluate_every=None, checkpoint_every=checkpoint_every)
    with pytest.raises(TrainingStopped, match=r"^step 7: the loss \(nan\).*is not finite: lower optim.learning_rate"):
        run(recorder, train, Log(every=2))
    saved = [step for step, _ in recorder.of("save")]
    assert saved == [step for step in range(1, 7) if checkpoint_every and step % checkpoint_every == 0]
    assert any(7 in steps for _, steps in recorder.of("measured"))  # the curve shows it


def test_skipped_steps_are_put_up_with_until_there_are_too_many_in_a_row():
    train = Train(steps=20, non_finite="skip", max_skips=2, evaluate_every=None, checkpoint_every=None)
    assert run(Recorder(bad=(3, 4, 7, 8)), train, Log(every=2)).reason == "finished"
    with pytest.raises(TrainingStopped, match=r"^step 9: 3 steps in a row .* more than train.max_skips=2"):
        run(Recorder(bad=(3, 7, 8, 9)), train, Log(every=2))


# ---------------------------------------------------------------- signals


def test_signals_are_a_flag_only_as_long_as_the_run_lasts():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for number in (signal.SIGTERM, signal.SIGINT):
        with graceful_stop() as stop:
            assert not stop.asked
            signal.raise_signal(number)
            assert stop.asked
            signal.raise_signal(signal.SIGTERM)  # impatient, yet the save goes on
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
