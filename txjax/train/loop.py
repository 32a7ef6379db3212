"""The loop around the train step: batches in, metrics and checkpoints out, without waiting for the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import jax

from txjax.batch import Batch
from txjax.config import Log, Train
from txjax.parallel.processes import any_process
from txjax.train.evaluate import Evaluation
from txjax.train.meter import Interval, Meter
from txjax.train.state import State
from txjax.train.step import StepMetrics
from txjax.train.stop import Stop

PROBED = 5  # logging points from one probe to the next: a probe takes about as long as a step
TakeStep = Callable[[State, Batch], tuple[State, StepMetrics]]


class TrainingStopped(Exception):
    """The run cannot go on: one sentence that says at which step, and why."""

    def __init__(self, step: int, why: str) -> None:
        super().__init__(f"step {step}: {why}")
        self.step = step


class Batches(Protocol):
    """An endless iterator of host batches that can say where it stands."""

    def __next__(self) -> Batch: ...
    def get_state(self) -> dict[str, Any]: ...


class Observer(Protocol):
    """Whom the loop tells; the run's folder, the progress bar and the samples are behind it."""

    def stepped(self, step: int) -> None: ...
    def measured(self, interval: Interval) -> None: ...
    def evaluate(self, step: int, params: Any) -> Evaluation: ...
    def sample(self, step: int, params: Any) -> None: ...
    def probe(self, step: int, params: Any) -> None: ...
    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended. finished: at train.steps. patience: train.patience evaluations had brought nothing better.
    signal: a signal asked for it. evaluation: the last one of this start.
    """

    step: int
    reason: Literal["finished", "patience", "signal"]
    evaluation: Evaluation | None = None


@dataclass
class Patience:
    """Counts evaluations since the best one."""

    limit: int | None
    best: float = float("inf")
    stale: int = 0

    def judge(self, shortfalls: Iterable[float]) -> None:
        for found in shortfalls:
            self.best, self.stale = (found, 0) if found < self.best else (self.best, self.stale + 1)

    @property
    def over(self) -> bool:
        return self.limit is not None and self.stale >= self.limit


def fit(
    train: Train,
    log: Log,
    state: State,
    batches: Batches,
    take_step: TakeStep,
    observer: Observer,
    meter: Meter,
    patience: Patience,
    stop: Stop,
) -> Outcome:
    """Train from state.step to train.steps.

    Metrics are fetched one logging interval late, so that the device always has work, and all of them before every
    checkpoint, so that a run that goes on from it repeats and misses none. Raises TrainingStopped by
    train.non_finite, before a checkpoint is written.
    """
    step, evaluation = int(state.step), None
    while step < train.steps:
        state, metrics = take_step(state, next(batches))
        step += 1
        meter.add(step, metrics)
        observer.stepped(step)
        last = step == train.steps
        stopping = asked(stop, step, log.every)
        evaluating = last or due(step, train.evaluate_every)
        sampling = evaluating or due(step, log.samples)
        probing = bool(log.probes) and (last or due(step, PROBED * log.every))
        saving = last or stopping or due(step, train.checkpoint_every)
        pausing = evaluating or sampling or probing or saving
        for interval in meter.drain() if pausing else meter.turn() if due(step, log.every) else []:
            observer.measured(interval)
            judge(train, interval)
        if evaluating:
            evaluation = observer.evaluate(step, state.params)
            patience.judge([evaluation.shortfall(train.best_by)])
        if sampling:
            observer.sample(step, state.params)
        if probing:
            observer.probe(step, state.params)
        if saving or patience.over:
            observer.save(step, state, batches.get_state(), evaluation if evaluating else None)
        if pausing:
            meter.restart_clock()
        if not last and (stopping or patience.over):
            return Outcome(step, "signal" if stopping else "patience", evaluation)
    return Outcome(step, "finished", evaluation)


def due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0


def asked(stop: Stop, step: int, every: int) -> bool:
    """Whether the run has been asked to stop. Its processes stop at one step, so they ask each other now and then."""
    if jax.process_count() == 1:
        return stop.asked
    return due(step, every) and any_process(stop.asked)


def judge(train: Train, interval: Interval) -> None:
    """Raise TrainingStopped over a non-finite step that the config does not put up with."""
    for step, metrics in interval.steps:
        row = int(metrics.in_a_row)
        if row and train.non_finite == "stop":
            raise TrainingStopped(
                step,
                f"the loss ({float(metrics.loss)}), its gradient (norm {float(metrics.grad_norm)}) or the "
                f"update (norm {float(metrics.update_norm)}) is not finite: lower optim.learning_rate, or set "
                "train.non_finite=skip",
            )
        if row > train.max_skips:
            raise TrainingStopped(
                step,
                f"{row} steps in a row were not finite, more than train.max_skips={train.max_skips}: "
                "lower optim.learning_rate",
            )
