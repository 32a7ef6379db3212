"""Running cells: each program compiled once, the cells through it one after another or at once, whatever ends kept."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import jax

from txjax.batch import Batch
from txjax.config import Config
from txjax.data.dataset import Dataset
from txjax.lab.cells import Cell, Result, failed
from txjax.lab.populations import Populations
from txjax.lab.study import Study, digest
from txjax.lab.timing import fastest
from txjax.lab.trainer import Stopped, Trainer
from txjax.models import Model, build
from txjax.schema import ConfigError, with_values
from txjax.train.evaluate import Evaluation, evaluate_split
from txjax.train.programs import Programs, program_key
from txjax.train.run import new_batches
from txjax.train.state import State
from txjax.train.step import StepMetrics
from txjax.train.stop import Stop

Way = Literal["auto", "sequential", "population"]


class Watcher(Protocol):
    """Whom running cells tell."""

    def plan(self, phase: str, done: int, cells: int) -> None: ...
    def cell(self, cell: Cell) -> None: ...
    def ended(self, cell: Cell, result: Result) -> None: ...
    def say(self, text: str) -> None: ...


class Silent:
    """A Watcher that says nothing."""

    def plan(self, phase: str, done: int, cells: int) -> None: ...
    def cell(self, cell: Cell) -> None: ...
    def ended(self, cell: Cell, result: Result) -> None: ...
    def say(self, text: str) -> None: ...


@dataclass
class Execution(Trainer):
    """folder: where the cells' folders lie. retry: run failed cells again.
    launcher: runs all cells of a seed in a process of its own; none: in this one.
    way: cells of one program one after another, or as a population; auto: a population on accelerators. A CPU gains
        nothing by one, since its products of matrices are slower in batches.
    """

    study: Study
    folder: Path
    watcher: Watcher
    stop: Stop
    retry: bool = False
    launcher: Callable[[int], None] | None = None
    way: Way = "auto"
    times: dict[str, float] = field(default_factory=dict, init=False)  # seconds a step, by program

    @cached_property
    def measured_by(self) -> str | None:
        """Names the functions of the study that measure cells; None where it has none of its own."""
        return digest(self.study.measured) if self.study.measured else None

    def ended(self, cell: Cell) -> Result | None:
        """What a cell has come to; None where it has not ended, or was measured by what the study has edited since."""
        result = Result.load(self.folder / cell.id)
        stale = result is not None and result.state != "failed" and result.measured_by != self.measured_by
        return None if stale else result

    def missing(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those that have not ended, or failed and are to be run again; a cell of two roles once."""
        found = {}
        for cell in cells:
            result = self.ended(cell)
            if result is None or (result.state == "failed" and self.retry):
                found[cell.id] = cell
        return list(found.values())

    def run(self, cells: Sequence[Cell], phase: str) -> None:
        """Run what is missing. Raises Stopped on a signal; a cell that raises is a failed cell, and the rest go on."""
        waiting = self.missing(cells)
        self.watcher.plan(phase, len(cells) - len(waiting), len(cells))
        if self.launcher is not None:
            self.launch(waiting, self.launcher)
            return
        if self.populated:
            waiting = Populations(self).train(waiting)
        for cell in waiting:
            if self.stop.asked:
                raise Stopped
            self.attempt(cell)

    @property
    def populated(self) -> bool:
        """Whether cells are trained at once."""
        wanted = self.way == "population" or (self.way == "auto" and jax.default_backend() != "cpu")
        return wanted and self.study.measure is None

    def attempt(self, cell: Cell) -> None:
        self.watcher.cell(cell)
        start = time.perf_counter()
        try:
            result = self.measure(cell) if self.study.measure else self.train(cell)
        except (ConfigError, Stopped):
            raise  # the user's to mend, and the same for every cell
        except Exception as error:
            result = failed(error, start)
        self.keep(cell, result)

    def keep(self, cell: Cell, result: Result) -> None:
        folder = self.folder / cell.id
        folder.mkdir(parents=True, exist_ok=True)
        result = dataclasses.replace(result, measured_by=self.measured_by)
        result.save(folder)
        self.watcher.ended(cell, result)

    def launch(self, waiting: Sequence[Cell], launcher: Callable[[int], None]) -> None:
        """A process for each seed; what it leaves undone has failed with it."""
        for seed in dict.fromkeys(cell.seed for cell in waiting):
            if self.stop.asked:
                raise Stopped
            mine = [cell for cell in waiting if cell.seed == seed]
            self.watcher.cell(mine[0])
            start, error = time.perf_counter(), None
            try:
                launcher(seed)
            except RuntimeError as raised:
                error = raised
            if self.stop.asked:
                raise Stopped
            for cell in mine:
                result = self.ended(cell)
                if result is None:
                    self.keep(cell, failed(error or RuntimeError("the launch left it out"), start))
                else:
                    self.watcher.ended(cell, result)

    def measure(self, cell: Cell) -> Result:
        """A cell of a study that trains nothing."""
        assert self.study.measure is not None
        start = time.perf_counter()
        figures = {name: float(value) for name, value in self.study.measure(cell.config, cell.seed).items()}
        state = "finished" if all(map(math.isfinite, figures.values())) else "diverged"
        return Result(state, 0, time.perf_counter() - start, figures)

    def train(self, cell: Cell) -> Result:
        """Train a cell in its folder, from where it has got to, and evaluate it on what it has not been chosen by."""
        return self.train_config(cell.config, self.folder / cell.id, self.stop)

    def figures(self, params: Any, programs: Programs, data: Dataset) -> dict[str, float]:
        """What is measured of trained weights: the test split, and the study's own probe."""
        found = super().figures(params, programs, data)
        if self.study.probe is not None:
            own = self.study.probe(Trained(programs.config, params, data, self))
            found |= {f"probe/{name}": float(value) for name, value in own.items()}
        return found

    def with_vocab(self, config: Config) -> Config:
        """The config with the vocabulary of its data."""
        return config if self.study.measure else config.with_vocab(*self.data(config).codec.sizes)

    def price(self, cells: Sequence[Cell]) -> tuple[float, float]:
        """Seconds to compile, and seconds of training, of what is missing of a phase: by a few steps of what will run,
        cell by cell or at once.
        """
        alone, compiling, training = self.missing(cells), 0.0, 0.0
        if self.populated:
            waves, alone = Populations(self).plan(alone)
            for wave in waves:
                self.watcher.say(f"compiling and timing {len(wave)} cells at once ...")
                try:
                    compiled, step = Populations(self).seconds_a_step(wave)
                except ConfigError:
                    raise
                except Exception:  # as it will when it runs; then its cells are trained one by one
                    alone += wave
                    continue
                compiling, training = compiling + compiled, training + step * wave[0].config.train.steps
        for cell in alone:
            compiled, step = self.timed(cell)
            compiling, training = compiling + compiled, training + step * cell.config.train.steps
        return compiling, training

    def timed(self, cell: Cell) -> tuple[float, float]:
        """Seconds to compile a cell's step, 0 where that has been timed before, and seconds a step."""
        data = self.data(cell.config)
        programs = self.program(cell.config, data)
        key = program_key(programs.config)
        if key in self.times:
            return 0.0, self.times[key]
        self.watcher.say(f"compiling and timing {cell.arm.name} ...")
        compiling, self.times[key] = seconds_a_step(programs, data)
        return compiling, self.times[key]

    def seconds_a_step(self, config: Config) -> float:
        """Of a config's train step, measured now."""
        data = self.data(config)
        return seconds_a_step(self.program(config, data), data)[1]


@dataclass(frozen=True)
class Trained:
    """What a study's probe is given: a cell's config, its trained parameters and its data."""

    config: Config
    params: Any
    dataset: Dataset
    execution: Execution

    @property
    def model(self) -> Model:
        return build(self.config.model)

    def evaluate(self, changes: Mapping[str, Any] | None = None) -> Evaluation:
        """The test split by these parameters, as a model whose config is changed in {config path: value}."""
        config = with_values(self.config, changes or {})
        data = self.execution.data(config)
        programs = self.execution.program(config, data)
        with programs.layout.scope():
            return evaluate_split(programs, self.params, data.split("test"))


def seconds_a_step(programs: Programs, data: Dataset) -> tuple[float, float]:
    """Seconds to compile the train step, and the fastest of a few steps after it."""
    batches = new_batches(programs.config, data)
    with programs.layout.scope():
        _, compiling = programs.compile_train_step(next(batches))

        def take_step(state: State, batch: Batch) -> tuple[State, StepMetrics]:
            step, _ = programs.compile_train_step(batch)  # made before, but for batches of another shape
            return step(state, programs.to_devices(batch), programs.hyper)

        return compiling, fastest(take_step, programs.initial_state(), batches)
