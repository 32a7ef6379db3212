"""What a sweep's command comes to: a folder, cells, and work on them, all points or a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from txjax.config import Config
from txjax.lab.sweep.combinators import Range, grid
from txjax.lab.sweep.folder import SweepFolder
from txjax.lab.sweep.plan import SweepCell, cells_of, check_space, digest, plain
from txjax.lab.sweep.reading import read_sweep
from txjax.lab.sweep.tpe import Search, optuna
from txjax.lab.sweep.worker import Say, work
from txjax.schema import ConfigError
from txjax.train.stop import Stop


class Course(Protocol):
    @property
    def sweep(self) -> SweepFolder: ...
    def retry(self) -> None: ...
    def work(self, stop: Stop, say: Say, worker: int) -> None: ...
    def cells(self) -> Sequence[SweepCell]: ...


@dataclass(frozen=True)
class AllPoints:
    """Every point once."""

    sweep: SweepFolder
    planned: Sequence[SweepCell]

    def retry(self) -> None:
        """Let the failed ones be run again."""
        self.sweep.forget_failed(self.planned)

    def work(self, stop: Stop, say: Say, worker: int) -> None:
        work(self.sweep, self.planned, stop, say)

    def cells(self) -> Sequence[SweepCell]:
        return self.planned


def plan(base: Config, text: str, workdir: Path | None, stem: str, trials: int | None, seed: int) -> Course:
    """The sweep that `text` says, over a config, judged. trials: of a search; none: all points.

    workdir: none is runs/sweeps/STEM-DIGEST, the same for the same sweep.
    """
    sweep = read_sweep(text)
    if trials is None:
        points = grid(sweep) if isinstance(sweep, Mapping) else sweep
        cells = cells_of(base, points)
        description = {"engine": "all", "points": [dict(cell.point) for cell in cells]}
        return AllPoints(_folder(base, description, workdir, stem), cells)
    if not isinstance(sweep, Mapping):
        raise ConfigError("--engine=optuna chooses the points itself: --sweep must be {path: values or a range}")
    optuna()
    check_space(base, sweep)
    space = {
        path: [some.low, some.high, some.scale] if isinstance(some, Range) else [plain(v) for v in some]
        for path, some in sweep.items()
    }
    description = {"engine": "optuna", "space": space, "seed": seed}
    return Search(_folder(base, description, workdir, stem), sweep, trials, seed)


def _folder(base: Config, description: Mapping[str, object], workdir: Path | None, stem: str) -> SweepFolder:
    named = Path("runs", "sweeps", f"{stem}-{digest([base.digest(), description])}")
    return SweepFolder((workdir or named).absolute(), base, description)
