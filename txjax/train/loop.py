"""The loop around the train step: batches in, metrics and checkpoints out, without waiting for the device."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import jax

from txjax.batch import Batch
from txjax.config import Train
from txjax.parallel.processes import any_process
from txjax.train.evaluate import Evaluation
from txjax.train.meter import Interval, Meter
from txjax.train.state import Hyper, State
from txjax.train.step import StepMetrics


class TrainingStopped(Exception):
    """The run cannot go on: one sentence that says at which step, and why."""


class Batches(Protocol):
    """An endless iterator of host batches that can say where it stands."""

    def __next__(self) -> Batch: ...
    def get_state(self) -> dict[str, Any]: ...


class Observer(Protocol):
    """Whom the loop tells; the run's folder, the progress bar and the callbacks are behind it."""

    def stepped(self, step: int) -> None: ...
    def measured(self, interval: Interval) -> None: ...
    def evaluate(self, step: int, state: State) -> Evaluation: ...
    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended. reason: finished, signal (SIGTERM), or patience (val/loss rose too often in a row)."""

    step: int
    reason: str
    evaluation: Evaluation | None


@dataclass
class Patience:
    """Counts evaluations since the lowest loss."""

    limit: int | None
    best: float = float("inf")
    stale: int = 0

    def judge(self, loss: float) -> None:
        self.best, self.stale = (loss, 0) if loss < self.best else (self.best, self.stale + 1)

    @property
    def over(self) -> bool:
        return self.limit is not None and self.stale >= self.limit


def fit(
    train: Train,
    log_every: int,
    state: State,
    hyper: Hyper,
    batches: Batches,
    step_program: Callable[[State, Batch, Hyper], tuple[State, StepMetrics]],
    observer: Observer,
    meter: Meter,
    place: Any,
    patience: Patience,
) -> Outcome:
    """Train from state.step to train.steps. place: the sharding of a batch.

    Metrics are fetched one logging interval late, so that the device always has work, and all of them before every
    checkpoint, so that a run that goes on from it repeats and misses none. Raises TrainingStopped by
    train.non_finite, before a checkpoint is written.
    """
    step, evaluation = int(state.step), None
    with graceful_stop() as stop:
        while step < train.steps:
            state, metrics = step_program(state, to_devices(next(batches), place), hyper)
            step += 1
            meter.add(step, metrics)
            observer.stepped(step)
            # the processes of a run stop at one step: they ask each other, but not at every step
            stopping = (jax.process_count() == 1 or step % log_every == 0) and any_process(stop.asked)
            ending = step == train.steps or stopping
            evaluating = step == train.steps or due(step, train.evaluate_every)
            saving = ending or due(step, train.checkpoint_every)
            intervals = meter.drain() if evaluating or saving else meter.turn() if step % log_every == 0 else []
            for interval in intervals:
                judge(train, interval)
                observer.measured(interval)
            if evaluating:
                evaluation = observer.evaluate(step, state)
                patience.judge(evaluation.loss)
                saving |= patience.over
            if saving:
                observer.save(step, state, batches.get_state(), evaluation if evaluating else None)
            if evaluating or saving:
                meter.restart_clock()
            if step < train.steps and (stopping or patience.over):
                return Outcome(step, "signal" if stopping else "patience", evaluation)
    return Outcome(step, "finished", evaluation)


def judge(train: Train, interval: Interval) -> None:
    """Raise TrainingStopped over a non-finite step that the config does not put up with."""
    for step, metrics in interval.steps:
        row = int(metrics.in_a_row)
        if row and train.non_finite == "stop":
            raise TrainingStopped(
                f"step {step}: the loss ({float(metrics.loss)}) or its gradient (norm {float(metrics.grad_norm)}) is "
                "not finite: lower optim.learning_rate, or set train.non_finite=skip"
            )
        if row > train.max_skips:
            raise TrainingStopped(
                f"step {step}: {row} steps in a row were not finite, more than train.max_skips={train.max_skips}: "
                "lower optim.learning_rate"
            )


def to_devices(batch: Batch, place: Any) -> Batch:
    """This process's rows of a batch, as the global array they are a part of."""
    if jax.process_count() == 1:
        return jax.device_put(batch, place)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(place, x), batch)


def due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0


@dataclass
class Stop:
    asked: bool = False


@contextmanager
def graceful_stop() -> Iterator[Stop]:
    """Turns SIGTERM into a flag that the loop reads after each step, while the context lasts."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        stop.asked = True

    try:
        before = signal.signal(signal.SIGTERM, ask)
    except ValueError:  # not the main thread: signals are somebody else's
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
