"""A worker: claims one cell after another, and trains it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from txjax.lab.cells import Result, failed
from txjax.lab.sweep.folder import SweepFolder
from txjax.lab.sweep.plan import SweepCell
from txjax.lab.trainer import Stopped, Trainer
from txjax.train.evaluate import Evaluation
from txjax.train.stop import Stop

Say = Callable[[str], None]


class Pruned(Exception):
    """A run is ended early, since others have done better by now."""


def work(sweep: SweepFolder, cells: Sequence[SweepCell], stop: Stop, say: Say) -> None:
    """Train every cell that has not ended and is nobody else's. Raises Stopped on a signal."""
    trainer = Trainer()
    for cell in cells:
        with sweep.claimed(cell.id) as mine:
            if mine and Result.load(sweep.cells / cell.id) is None:
                tell(cell, attempt(sweep, trainer, cell, stop), say)


def attempt(
    sweep: SweepFolder,
    trainer: Trainer,
    cell: SweepCell,
    stop: Stop,
    evaluated: Callable[[int, Evaluation], None] | None = None,
) -> Result:
    """Train a cell, whatever comes of it: what it raises is its result, and takes no other with it."""
    if stop.asked:
        raise Stopped
    folder, start = sweep.cells / cell.id, time.perf_counter()
    try:
        result = trainer.train_config(cell.config, folder, stop, evaluated)
    except Stopped:
        raise
    except Pruned:
        result = Result("pruned", 0, time.perf_counter() - start)
    except Exception as error:
        result = failed(error, start)
    folder.mkdir(parents=True, exist_ok=True)
    result.save(folder)
    return result


def tell(cell: SweepCell, result: Result, say: Say) -> None:
    error = "" if result.error is None else f": {result.error.strip().splitlines()[-1]}"
    say(f"{result.state:10} {cell.id}  {result.seconds:.1f} s{error}")
