"""Train many points of one config: a grid, a random sample or a search, in one folder and one table.

  txjax sweep --config=FILE.py --sweep='optim.learning_rate=1e-4,3e-4;train.seed=0,1'
  txjax sweep --config=FILE.py --sweep=my_sweep.py --workers=2
  txjax sweep --config=FILE.py --sweep='optim.learning_rate=log_uniform(1e-4, 1e-1)' --engine=optuna --trials=20
  txjax sweep --config=FILE.py --sweep=my_sweep.py --launcher=submitit --workers=8 --cluster_settings='timeout_min=60'

Killed or stopped, the same command goes on with what is missing; run beside itself, from another shell too, it lends a
hand. Failed cells keep their traceback and are run again with --retry.

Exit codes: 0 every cell has ended, 1 some have failed or are left, 2 the sweep or folder cannot be used, 75 stopped by
SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax.lab.sweep.course import Course

TOP, WIDE = 5, 200  # cells that are listed; letters of a line where there is no terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, metavar="FILE.py[:ARG]", help="file with a get_config()")
    parser.add_argument("--sweep", required=True, metavar="SWEEP", help="FILE.py with get_sweep(), or PATH=V,V;PATH=V")
    parser.add_argument("--workdir", type=Path, metavar="DIR", help="default runs/sweeps/NAME-DIGEST, printed")
    parser.add_argument("--retry", action="store_true", help="run failed cells again")
    parser.add_argument("--top", default="val/loss", metavar="FIGURE", help="what the printed list is sorted by")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, or jobs")
    parser.add_argument("--launcher", choices=("local", "submitit"), default="local")
    parser.add_argument("--cluster", metavar="slurm|local|debug", help="of submitit; default: what there is")
    parser.add_argument(
        "--cluster_settings", default="", metavar="NAME=V;NAME=V", help="submitit's parameters of a job"
    )
    parser.add_argument("--engine", choices=("all", "optuna"), default="all", help="all points, or a search by Optuna")
    parser.add_argument("--trials", type=int, metavar="N", help="of a search")
    parser.add_argument("--search_seed", type=int, default=0, help="of a search")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)  # the number of the worker that this process is


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import SIGNALLED, STOPPED
    from txjax.lab.sweep.launchers import local, submit, this_command
    from txjax.lab.trainer import Stopped
    from txjax.train.stop import graceful_stop

    course = course_of(options, rest)
    course.sweep.open()
    with graceful_stop() as stop:
        try:
            if options.worker is not None:
                course.work(stop, say, options.worker)
                return 0
            say(f"sweep      {course.sweep.path}")
            if options.retry:
                course.retry()
            command = this_command(words_of(options, course.sweep.path, rest))
            if options.launcher == "submitit":
                logs = course.sweep.path / "jobs"
                submit(command, options.workers, options.cluster, options.cluster_settings, logs, say)
            elif options.workers > 1:
                local(command, options.workers, stop, say)
            else:
                course.work(stop, say, 0)
        except Stopped:
            stop.asked = True
    if options.worker is not None:
        return SIGNALLED
    rows = course.sweep.write_table(course.cells())
    show(rows, options.top)
    say(f"table      {course.sweep.results / 'table.csv'}, and table.json")
    if stop.asked:
        say("stopped; the same command goes on from here")
        return SIGNALLED
    return STOPPED if {row["state"] for row in rows} & {"failed", "interrupted", "waiting"} else 0


def course_of(options: argparse.Namespace, rest: Sequence[str]) -> Course:
    from txjax.config.flags import load
    from txjax.lab.sweep.course import plan
    from txjax.schema import ConfigError

    if (options.engine == "optuna") != (options.trials is not None):
        raise ConfigError("--engine=optuna and --trials=N go together")
    for name in ("workers", "trials"):
        if (number := getattr(options, name)) is not None and number < 1:
            raise ConfigError(f"--{name} must be at least 1, got {number}")
    stem = Path(options.config.partition(":")[0]).stem
    return plan(load(options.config, rest), options.sweep, options.workdir, stem, options.trials, options.search_seed)


def words_of(options: argparse.Namespace, folder: Path, rest: Sequence[str]) -> list[str]:
    """The arguments of a worker of this sweep."""
    words = ["sweep", f"--config={options.config}", f"--sweep={options.sweep}", f"--workdir={folder}", *rest]
    if options.engine == "optuna":
        words += ["--engine=optuna", f"--trials={options.trials}", f"--search_seed={options.search_seed}"]
    return words


def say(text: str) -> None:
    print(text, flush=True)


def show(rows: Sequence[dict[str, Any]], figure: str) -> None:
    """How many cells came to what, what failed, and the best by a figure."""
    from collections import Counter

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    states = Counter(row["state"] for row in rows)
    say(f"cells      {len(rows)}: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))
    for row in rows:
        if row["state"] == "failed":
            say(f"failed     {row['cell']}: {row['error']}   (its traceback: cells/{row['cell']}/result.json)")
    known = [row for row in rows if row["state"] == "finished" and row["metrics"].get(figure) is not None]
    known.sort(key=lambda row: row["metrics"][figure], reverse=figure.endswith(("accuracy", "per_second", "mfu")))
    if not known:
        names = sorted({name for row in rows for name in row["metrics"]})
        say(f"no finished cell has {figure}" + (f": --top may be one of {', '.join(names)}" if names else ""))
        return
    paths = list(dict.fromkeys(path for row in known for path in row["point"]))
    table = Table(figure, *paths, "cell", box=None)
    for row in known[:TOP]:
        settings = [Text(str(row["point"].get(path, ""))) for path in paths]
        table.add_row(f"{row['metrics'][figure]:.4f}", *settings, Text(row["cell"]))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table)
