"""Progress of long work: a live bar on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY = 10.0  # seconds between lines where there is no terminal


class Reporter:
    """Says what is going on: `say` a line, `advance` a step. A context manager; quiet processes say nothing."""

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.console = Console(quiet=quiet, highlight=False, soft_wrap=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
            refresh_per_second=4,
            transient=True,
        )
        self.task = self.bar.add_task("training", total=total, figures="")
        self.total = total
        self.last_line = 0.0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def doing(self, what: str) -> None:
        """What the bar says of itself."""
        self.bar.update(self.task, description=what)

    def advance(self, step: int) -> None:
        self.bar.update(self.task, completed=step)

    def figures(self, step: int, figures: dict[str, float]) -> None:
        """The latest figures: beside the bar, or as a line now and then."""
        loss, speed = figures["train/loss"], figures.get("train/tokens_per_second")
        text = f"loss {loss:.3f}" + (f"  {speed:,.0f} tokens/s" if speed else "")
        self.bar.update(self.task, figures=text)
        now = time.monotonic()
        if not self.console.is_terminal and (now - self.last_line > LINE_EVERY or step == self.total):
            self.last_line = now
            self.say(f"step {step}/{self.total}  {text}")
