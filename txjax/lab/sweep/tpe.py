"""Optuna as the engine of a sweep: points chosen by what earlier ones came to, and bad ones ended early.

The study lies in optuna.journal, which several workers share. A trial is a cell of the sweep, claimed as one; one
whose worker was killed is gone on with by the next, from its run's checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from txjax.lab.cells import Result
from txjax.lab.sweep.combinators import Range, Space
from txjax.lab.sweep.folder import SweepFolder
from txjax.lab.sweep.plan import SweepCell, cell_of
from txjax.lab.sweep.worker import Pruned, Say, attempt, tell
from txjax.lab.trainer import Trainer
from txjax.schema import ConfigError, literal
from txjax.train.evaluate import Evaluation
from txjax.train.stop import Stop

JOURNAL = "optuna.journal"
RETRIED = "retried"  # attribute of a trial: the number of the failed one whose point it tries again


def optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise ConfigError('--engine=optuna needs Optuna: pip install "txjax[sweep]"') from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@dataclass(frozen=True)
class Search:
    """space: what is searched. trials: how many there are in the end, retried ones once. seed: of the sampler."""

    sweep: SweepFolder
    space: Space
    trials: int
    seed: int

    def study(self, worker: int = 0) -> Any:
        """The shared study, sampled from a stream of this worker's own."""
        lib = optuna()
        journal = lib.storages.journal
        storage = lib.storages.JournalStorage(journal.JournalFileBackend(str(self.sweep.path / JOURNAL)))
        sampler = lib.samplers.TPESampler(seed=self.seed + worker, constant_liar=True)  # of running ones: others' work
        pruner = lib.pruners.MedianPruner(n_startup_trials=5)
        return lib.create_study(
            study_name="sweep",
            storage=storage,
            load_if_exists=True,
            direction="minimize",
            sampler=sampler,
            pruner=pruner,
        )

    def work(self, stop: Stop, say: Say, worker: int) -> None:
        """Go on with trials that were cut short, then try new points, until there are enough."""
        study, trainer = self.study(worker), Trainer()
        while True:
            with self._next(study) as found:
                if found is None:
                    return
                trial, cell = found
                self._run(study, trial, cell, trainer, stop, say)

    @contextmanager
    def _next(self, study: Any) -> Iterator[tuple[Any, SweepCell] | None]:
        """A trial and its cell, claimed inside; None where there are enough."""
        with ExitStack() as stack:
            with self.sweep.held("trials"):  # counting and asking are one act
                trial = self._cut_short(study, stack)
                if trial is None and self._left(study):
                    trial = study.ask(distributions(self.space))
                    assert stack.enter_context(self.sweep.claimed(name_of(trial)))
            yield None if trial is None else (trial, self.cell(trial.number, trial.params))

    def _cut_short(self, study: Any, stack: ExitStack) -> Any:
        """A running trial that no worker has, now claimed; one that was not given its parameters is given up."""
        lib = optuna()
        running = lib.trial.TrialState.RUNNING
        for seen in study.get_trials(states=(running,)):
            mine = stack.enter_context(self.sweep.claimed(name_of(seen)))
            frozen = study.get_trials()[seen.number]
            if not mine or frozen.state != running:  # another's, who may have ended it just now
                continue
            if frozen.params.keys() == self.space.keys():
                return lib.trial.Trial(study, frozen._trial_id)
            study.tell(frozen.number, state=lib.trial.TrialState.FAIL)
        return None

    def _left(self, study: Any) -> int:
        """How many are still to be tried: those that wait are tried first, and count when they are."""
        retried = self._retried(study)
        counted = [t for t in study.get_trials() if t.number not in retried and t.state.name != "WAITING"]
        return self.trials - len(counted)

    def retry(self) -> None:
        """Let the points of failed trials be tried again, each as a new trial that counts for the old one."""
        study = self.study()
        with self.sweep.held("trials"):
            retried = self._retried(study)
            for trial in study.get_trials():
                if trial.state.name == "FAIL" and trial.number not in retried:
                    study.enqueue_trial(trial.params, user_attrs={RETRIED: trial.number})

    @staticmethod
    def _retried(study: Any) -> dict[int, Any]:
        """By the number of a failed trial, the later one that stands for it."""
        return {trial.user_attrs[RETRIED]: trial for trial in study.get_trials() if RETRIED in trial.user_attrs}

    def _run(self, study: Any, trial: Any, cell: SweepCell, trainer: Trainer, stop: Stop, say: Say) -> None:
        state = optuna().trial.TrialState

        def evaluated(step: int, evaluation: Evaluation) -> None:
            trial.report(evaluation.loss, step)
            if step < cell.config.train.steps and trial.should_prune():
                raise Pruned

        result = Result.load(self.sweep.cells / cell.id)  # of a worker that was killed before it could tell
        if result is None:
            result = attempt(self.sweep, trainer, cell, stop, evaluated)
        loss = self.loss(cell, result)
        if result.state == "pruned":
            study.tell(trial.number, state=state.PRUNED)
        elif result.state == "failed" or loss is None:
            study.tell(trial.number, state=state.FAIL)
        else:
            study.tell(trial.number, loss)
        tell(cell, result, say)

    def loss(self, cell: SweepCell, result: Result) -> float | None:
        """val/loss at the end; of a diverged run, what a predictor comes to that has learned nothing."""
        if result.state == "diverged":
            return result.trivial
        value = self.sweep.row(cell)["metrics"].get("val/loss")
        return value if value is not None and math.isfinite(value) else result.trivial

    def cell(self, number: int, params: Mapping[str, Any]) -> SweepCell:
        cell = cell_of(self.sweep.base, params)
        return SweepCell(name(number), cell.config, cell.point)

    def cells(self) -> list[SweepCell]:
        """Those of all trials so far, but for failed ones whose point has been tried again."""
        study = self.study()
        retried = {number for number, by in self._retried(study).items() if by.state.name != "WAITING"}
        whole = [t for t in study.get_trials() if t.params.keys() == self.space.keys()]
        return [self.cell(trial.number, trial.params) for trial in whole if trial.number not in retried]


def name(number: int) -> str:
    return f"trial-{number:04d}"


def name_of(trial: Any) -> str:
    return name(trial.number)


def distributions(space: Space) -> dict[str, Any]:
    """Optuna's words for a space."""
    lib = optuna().distributions
    return {
        path: lib.FloatDistribution(some.low, some.high, log=some.scale == "log")
        if isinstance(some, Range)
        else lib.CategoricalDistribution([literal(v) if isinstance(v, str) else v for v in some])
        for path, some in space.items()
    }
