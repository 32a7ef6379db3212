"""The cells of a study: each an arm, a value of each tuned nuisance and a seed, run in a folder of its own."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.lab.arms import Arm
from txjax.lab.readouts import Metric
from txjax.lab.study import TUNING_SEEDS, Study
from txjax.lab.table import Phase, Row, State, Table
from txjax.schema import with_values
from txjax.store import Run
from txjax.store.files import read_json, write_json

RESULT = "result.json"


@dataclass(frozen=True)
class Cell:
    arm: Arm
    tuned: Mapping[str, float]
    seed: int
    phase: Phase

    @cached_property
    def config(self) -> Config:
        return with_values(self.arm.config, {**self.tuned, "train.seed": self.seed})

    @cached_property
    def id(self) -> str:
        """Says what it is, and ends in what makes it unique."""
        tuned = [f"{path.rpartition('.')[2]}={value:g}" for path, value in self.tuned.items()]
        words = [self.arm.name, *tuned, f"seed={self.seed}"]
        return re.sub(r"[^\w.=+-]+", "-", " ".join(words)) + "-" + self.config.digest()[:6]

    @property
    def order(self) -> tuple[int, str]:
        return self.seed, self.id


def tuning_cells(study: Study, arms: Sequence[Arm], tried: Mapping[str, Sequence[float]]) -> list[Cell]:
    """Every arm at every combination of the values, on seeds that are never reported."""
    seeds = range(TUNING_SEEDS, TUNING_SEEDS + study.tuning_seeds)
    grid = [dict(zip(tried, values, strict=True)) for values in itertools.product(*tried.values())]
    return [Cell(arm, values, seed, "tuning") for seed in seeds for values in grid for arm in arms]


def report_cells(arms: Sequence[Arm], chosen: Sequence[Mapping[str, float]], seeds: Sequence[int]) -> list[Cell]:
    """Every arm at its chosen values, seed by seed so that what is done is paired."""
    pairs = list(zip(arms, chosen, strict=True))
    return [Cell(arm, values, seed, "report") for seed in seeds for arm, values in pairs]


@dataclass(frozen=True)
class Result:
    """What is kept of a cell beside its run. steps: that were trained; of a diverged run, the one at which it did.
    figures: measured after the last step. trivial: the loss of a predictor that has learned nothing, which a diverged
    run counts as. error: the traceback of a failed cell. measured_by: digest of the study's functions that made the
    figures, where it has any.
    """

    state: State
    steps: int
    seconds: float
    figures: Mapping[str, float] = field(default_factory=dict)
    trivial: float | None = None
    error: str | None = None
    measured_by: str | None = None

    def save(self, folder: Path) -> None:
        plain = {name: value if math.isfinite(value) else None for name, value in self.figures.items()}
        write_json(folder / RESULT, dataclasses.asdict(self) | {"figures": plain})

    @classmethod
    def load(cls, folder: Path) -> Result | None:
        """None where the cell has not ended."""
        if not (folder / RESULT).is_file():
            return None
        data = read_json(folder / RESULT)
        figures = {name: math.nan if value is None else value for name, value in data["figures"].items()}
        return cls(**data | {"figures": figures})


def failed(error: Exception, since: float) -> Result:
    text = "".join(traceback.format_exception(error))
    return Result("failed", 0, time.perf_counter() - since, error=text)


def row_of(cell: Cell, folder: Path, metrics: Sequence[Metric], facts: Mapping[str, Any]) -> Row | None:
    """The cell's row in the table: its read-outs, whatever the study has become since; None until it has ended."""
    result = Result.load(folder)
    if result is None:
        return None
    values, censored, resolution = {}, [], {}
    budget = cell.config.train.steps
    points = Run.read(folder).rows() if (folder / "metrics.jsonl").is_file() else []
    points.append({"step": budget, **result.figures})
    for metric in metrics:
        reading = metric.read(points, budget)
        values[metric.name] = reading.value
        resolution[metric.name] = reading.resolution
        if reading.censored:
            censored.append(metric.name)
    about = {
        "cell": cell.id,
        "seconds": round(result.seconds, 3),
        "steps": result.steps,
        "resolution": resolution,
        "trivial": result.trivial,
        "error": None if result.error is None else result.error.strip().splitlines()[-1],
    }
    return Row(
        levels=dict(cell.arm.levels),
        seed=cell.seed,
        values=values,
        state=result.state,
        phase=cell.phase,
        tuned=dict(cell.tuned),
        censored=tuple(censored),
        facts={**about, **facts},
    )


def table_of(cells: Sequence[Cell], folder: Path, metrics: Sequence[Metric], facts: Mapping[str, Any]) -> Table:
    """The rows of all cells that have ended. facts: of each arm, by name."""
    rows = [row_of(cell, folder / cell.id, metrics, facts.get(cell.arm.name, {})) for cell in cells]
    return Table(tuple(row for row in rows if row is not None))
