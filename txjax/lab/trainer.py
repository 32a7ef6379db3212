"""Training configs one after another, in a process that compiles each program and loads each data set once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.data import dataset
from txjax.data.dataset import Dataset
from txjax.lab.cells import RESULT, Result
from txjax.models import build
from txjax.parallel import check_batch, make_layout
from txjax.schema import to_dict
from txjax.store import Run
from txjax.train.evaluate import Evaluation, evaluate_split
from txjax.train.loop import TrainingStopped
from txjax.train.programs import Programs, program_key
from txjax.train.progress import Reporter
from txjax.train.run import last_parameters, new_batches, train_in
from txjax.train.stop import Stop


class Stopped(Exception):
    """A signal asked the study to stop; what has ended is kept, and the same command goes on."""


@dataclass
class Trainer:
    """Programs and data are made when first needed, and kept: configs that differ in traced numbers, seeds or data
    share one compiled step.
    """

    programs: dict[str, Programs] = field(default_factory=dict, kw_only=True)
    datasets: dict[str, Dataset] = field(default_factory=dict, kw_only=True)

    def train_config(
        self, config: Config, folder: Path, stop: Stop, evaluated: Callable[[int, Evaluation], None] | None = None
    ) -> Result:
        """Train a config in its folder, from where it has got to, and measure it. Raises Stopped on a signal.

        evaluated: told of each evaluation; what it raises ends the run.
        """
        (folder / RESULT).unlink(missing_ok=True)  # of an attempt that failed
        data = self.data(config)
        programs = self.program(config, data)
        config, start = programs.config, time.perf_counter()
        batches = new_batches(config, data)
        trivial = data.trivial_loss()
        quiet = Reporter(config.train.steps, quiet=True)
        with programs.layout.scope(), Run.open(folder, config, fingerprint=batches.fingerprint) as run:
            try:
                outcome = train_in(run, data, programs, batches, quiet, stop, evaluated)
            except TrainingStopped as stopped:
                return Result("diverged", stopped.step, time.perf_counter() - start, trivial=trivial)
            if outcome.reason == "signal":
                raise Stopped
            figures = self.figures(last_parameters(run, programs), programs, data)
        return Result("finished", outcome.step, time.perf_counter() - start, figures, trivial)

    def figures(self, params: Any, programs: Programs, data: Dataset) -> dict[str, float]:
        """What is measured of trained weights: the test split, where there is one."""
        if data.test is None:
            return {}
        return evaluate_split(programs, params, data.test).figures("test", data.test.target_bytes(data.codec))

    def data(self, config: Config) -> Dataset:
        name = json.dumps([to_dict(config.data), config.context], sort_keys=True)
        if name not in self.datasets:
            self.datasets[name] = dataset.load(config)
        return self.datasets[name]

    def program(self, config: Config, data: Dataset) -> Programs:
        config = config.with_vocab(*data.codec.sizes)
        key = program_key(config)
        if key not in self.programs:
            layout = make_layout(config.mesh)
            check_batch(layout, config.train.batch_size, config.train.accumulation)
            self.programs[key] = Programs(config, build(config.model), layout)
        return self.programs[key].of(config)
