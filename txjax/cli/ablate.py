"""Run a study: from a question in one file to an effect, an interval and a verdict.

  txjax ablate experiments/norm_placement
  txjax ablate experiments/norm_placement --tier=smoke --workdir=runs/try
  txjax ablate my_study.py --seeds=16

Killed or stopped, the same command goes on from the cells that have ended. It ends with a line `verdict: ...` for each
prediction. What is predicted is registered at the first run: a study that is changed later is exploratory, and gets
effects without verdicts.

Exit codes: 0 done, 2 the study, data or folder cannot be used, 75 stopped by SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txjax.lab.cells import Cell, Result


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, help="experiments/NAME, or a file with a get_study()")
    parser.add_argument("--tier", choices=("smoke", "cpu", "device", "paper"), default="cpu")
    parser.add_argument("--seeds", type=int, metavar="N", help="instead of the tier's number; fewer than 6: no verdict")
    parser.add_argument("--workdir", type=Path, metavar="DIR", help="default runs/studies/NAME-TIER")
    parser.add_argument("--launch", type=int, help=argparse.SUPPRESS)  # one seed, in the process that a launch is
    parser.add_argument("--explore", action="store_true", help="register nothing, judge nothing")
    parser.add_argument("--anyway", action="store_true", help="run it however long it takes, whatever it can find")
    parser.add_argument("--retry", action="store_true", help="run failed cells again")
    parser.add_argument(
        "--execution",
        choices=("auto", "sequential", "population"),
        default="auto",
        help="cells of one program one after another, or trained at once; auto: at once on accelerators",
    )
    parser.add_argument(
        "--publish", action="store_true", help="put results and report.md into experiments/NAME/results"
    )


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import SIGNALLED, refuse
    from txjax.lab import readme, report
    from txjax.lab.ablate import Options, ablate, measure_launch
    from txjax.lab.execution import Stopped
    from txjax.train.stop import graceful_stop
    from txjax.view.forest import forest

    refuse(rest)
    if options.launch is not None:
        measure_launch(options.study, options.workdir, options.tier, options.launch)
        return 0
    name = report.name_of(options.study)
    workdir = options.workdir or Path("runs", "studies", f"{name}-{options.tier}")
    published = report.published_in(options.study, options.tier) if options.publish else None
    how = Options(options.tier, options.seeds, options.explore, options.anyway, options.retry, options.execution)
    with Screen() as screen, graceful_stop() as stop:
        try:
            outcome = ablate(options.study, workdir, how, screen, stop)
        except Stopped:
            screen.say("stopped; the same command goes on from here")
            return SIGNALLED
    for line in forest(outcome.verdicts):
        print(line)
    for verdict in outcome.verdicts:
        print(verdict.line(outcome.scope))
    print(f"report      {outcome.folder / report.PAGE}")
    if published is not None:
        report.publish(outcome.folder, published)
        readme.write_readme(published.parents[1])
        print(f"published   {published}")
    print(f"curves      tensorboard --logdir={outcome.folder}")
    return 0


class Screen:
    """The progress of a study on the terminal: a bar over cells, or a line now and then in a log."""

    LINE_EVERY = 15.0  # seconds, where there is no terminal

    def __init__(self) -> None:
        import time

        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.clock = time.monotonic
        self.console = Console(highlight=False, soft_wrap=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[cell]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("", total=None, cell="")
        self.done, self.total, self.last_line = 0, 0, 0.0

    def __enter__(self) -> Screen:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def plan(self, phase: str, done: int, cells: int) -> None:
        """From here on so many cells, some of which had ended before."""
        self.done, self.total = done, cells
        self.bar.reset(self.task, description=phase, total=cells, completed=done)

    def cell(self, cell: Cell) -> None:
        self.bar.update(self.task, cell=cell.id)

    def ended(self, cell: Cell, result: Result) -> None:
        self.done += 1
        self.bar.update(self.task, completed=self.done)
        if result.state == "failed":
            self.say(f"failed     {cell.id}: {(result.error or '').strip().splitlines()[-1]}")
        now = self.clock()
        if not self.console.is_terminal and (now - self.last_line > self.LINE_EVERY or self.done == self.total):
            self.last_line = now
            self.say(f"{self.bar.tasks[0].description}  {self.done}/{self.total} cells")
