"""The folder of a sweep: what it is, which cell is whose, and the table of all of them.

sweep.json       the base config, the points, every start
cells/ID/        a run each, with result.json once it has ended
claims/ID        locked while a worker has the cell: the system's lock, which ends with its process
results/         table.json and table.csv
"""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txjax.config import Config
from txjax.lab.cells import RESULT, Result
from txjax.lab.sweep.plan import SweepCell, digest
from txjax.schema import ConfigError, difference, flatten, from_dict, to_dict
from txjax.store.files import read_json, write_json, write_text
from txjax.store.lock import Lock
from txjax.store.metrics import read_rows
from txjax.store.provenance import start

FILE = "sweep.json"
PATIENCE = 30.0  # seconds that a worker waits for another to be done with a file


@dataclass(frozen=True)
class SweepFolder:
    """description: what makes this sweep this one, a JSON value."""

    path: Path
    base: Config
    description: Mapping[str, Any]

    def open(self) -> None:
        """Make the folder, or join it; ConfigError, with what differs, where it holds another sweep."""
        for folder in (self.path, self.cells, self.claims, self.results):
            _make(folder)
        with self.held("register"):
            file = self.path / FILE
            new = {"sweep": digest([self.base.digest(), self.description]), "base": to_dict(self.base)}
            data = read_json(file) if file.is_file() else {**new, **self.description, "starts": []}
            if data["sweep"] != new["sweep"]:
                raise ConfigError(f"{self.path} holds another sweep: {self._differs(data)}: use another --workdir")
            write_json(file, {**data, "starts": [*data["starts"], start(sys.argv)]})

    def _differs(self, data: Mapping[str, Any]) -> str:
        changed = difference(from_dict(Config, data["base"]), self.base)
        words = [f"{path} {old} -> {new}" for path, (old, new) in changed.items()]
        for name, value in self.description.items():
            old = data.get(name)
            if isinstance(value, list) and isinstance(old, list):
                new, gone = [p for p in value if p not in old], [p for p in old if p not in value]
                words += [f"{len(found)} {name} {what}, such as {found[0]}"
                          for found, what in ((new, "are new"), (gone, "are gone")) if found]  # fmt: skip
            elif old != value:
                words.append(f"{name} {old} -> {value}")
        return "; ".join(words)

    @property
    def cells(self) -> Path:
        return self.path / "cells"

    @property
    def claims(self) -> Path:
        return self.path / "claims"

    @property
    def results(self) -> Path:
        return self.path / "results"

    @contextlib.contextmanager
    def held(self, name: str, patience: float = PATIENCE) -> Iterator[None]:
        """A file of claims/ is this process's inside; ConfigError where another keeps it longer than `patience`."""
        end = time.monotonic() + patience
        while True:
            try:
                lock = Lock(self.claims, name)
                break
            except ConfigError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def claimed(self, cell: str) -> Iterator[bool]:
        """Whether the cell is this worker's inside, or another one's.

        A moment's patience: whoever asks for its state holds it as long as that takes.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.held(cell, patience=0.2))
            except ConfigError:
                yield False
                return
            yield True

    def state(self, cell: str) -> str:
        """finished, diverged, pruned, failed; running; interrupted: begun by nobody who lives; waiting: not begun."""
        if result := Result.load(self.cells / cell):
            return result.state
        try:
            Lock(self.claims, cell).release()
        except ConfigError:
            return "running"
        return "interrupted" if (self.cells / cell / "config.json").is_file() else "waiting"

    def forget_failed(self, cells: Iterable[SweepCell]) -> None:
        """Failed cells are as if they had been cut short: to be run again."""
        for cell in cells:
            result = Result.load(self.cells / cell.id)
            if result is not None and result.state == "failed":
                (self.cells / cell.id / RESULT).unlink()

    # ------------------------------------------------------------ the table

    def table(self, cells: Iterable[SweepCell]) -> list[dict[str, Any]]:
        """A row a cell: its state, its point, its whole config, and the last value of every figure."""
        return [self.row(cell) for cell in cells]

    def row(self, cell: SweepCell) -> dict[str, Any]:
        folder = self.cells / cell.id
        result = Result.load(folder)
        metrics: dict[str, Any] = {}
        for line in read_rows(folder / "metrics.jsonl"):
            metrics |= line
        steps = metrics.pop("step", 0)
        if result is not None:
            metrics |= result.figures
        error = None if result is None or result.error is None else result.error.strip().splitlines()[-1]
        return {
            "cell": cell.id,
            "state": self.state(cell.id),
            "point": dict(cell.point),
            "metrics": metrics,
            "steps": steps,
            "seconds": None if result is None else round(result.seconds, 3),
            "error": error,
            "config": flatten(cell.config),
        }

    def write_table(self, cells: Iterable[SweepCell]) -> list[dict[str, Any]]:
        """results/table.json and table.csv, as things stand."""
        with self.held("table"):
            rows = self.table(cells)
            write_json(self.results / "table.json", rows)
            write_text(self.results / "table.csv", as_csv(rows))
        return rows


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Figures by their names, and every setting as config.PATH."""
    flat = []
    for row in rows:
        plain = {name: row[name] for name in ("cell", "state", "steps", "seconds", "error")}
        flat.append(plain | row["metrics"] | {f"config.{path}": value for path, value in row["config"].items()})
    names = list(dict.fromkeys(name for row in flat for name in row))
    names.sort(key=lambda name: name.startswith("config."))  # a cell of another kind has settings of its own
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error.strerror}: give another --workdir") from None
