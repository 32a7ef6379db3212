"""A run's numbers and texts as they come: metrics.jsonl for programs, TensorBoard's event files for eyes.

A line of metrics.jsonl is one step, `{"step": 10, "train/loss": 2.31, "val/loss": 2.4}`, and tags in TensorBoard are
the same names. A number that is not finite is null there, which every JSON reader takes (as NaN, in pandas), and
itself in TensorBoard. Both hold every step once, also after a run was killed and resumed from an older checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, Self, SupportsFloat

from txjax.store.files import StoreError, reason, write_text

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0  # how far the event files may lag behind, for somebody who watches


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a metrics.jsonl, in order; null reads as None. A half line at the end, from a kill, is left out."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"cannot read {path}: {reason(error)}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            if number < len(lines):
                raise StoreError(f"{path}, line {number}, is no JSON: {error.msg}") from None
    return rows


class Metrics:
    """Writes scalars and texts by step. Not for threads.

    folder: the run's; None writes nothing, for the processes that are not the first.
    resume_step: the step of the checkpoint that training goes on from, None where it starts anew. What was written
        for later steps is removed from metrics.jsonl, and TensorBoard is told to forget it.
    hyperparameters: shown in TensorBoard's HParams tab beside the last value of each scalar of this same run: a
        number, a truth value or a text as it is, anything else as text.

    Scalars of one step are gathered into one row, which is written when the next step begins or on `flush`: flush
    before each checkpoint, so that it never knows a step which the metrics do not. Whatever cannot be written, a full
    disk say, is a StoreError from the call that tried. Usable in a `with` block.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        resume_step: int | None,
        hyperparameters: Mapping[str, Any],
        tensorboard: bool = True,
    ) -> None:
        self._step: int | None = None
        self._row: dict[str, float | int] = {}
        self._sinks: list[_Sink] = []
        if folder is not None:
            self._sinks.append(_Lines(folder / "metrics.jsonl", resume_step))
        if folder is not None and tensorboard:
            self._sinks.append(_Events(folder / "tb", resume_step, hyperparameters))

    def scalars(self, step: int, values: Mapping[str, SupportsFloat]) -> None:
        """Numbers of a step, by name; Python's, numpy's or arrays of one element. Integers stay integers."""
        if step != self._step:
            self._write_row()
            self._step = step
        self._row |= {name: _number(value) for name, value in values.items()}

    def text(self, step: int, name: str, text: str) -> None:
        """A text of a step, for TensorBoard only, shown as it is: no Markdown."""
        for sink in self._sinks:
            sink.text(step, name, text)

    def flush(self) -> None:
        """All that was given so far lies on the disk."""
        self._write_row()
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        """Flush, and let the files go. Closing twice does nothing."""
        try:
            self.flush()
        finally:
            for sink in self._sinks:
                with contextlib.suppress(OSError):  # `flush` has told
                    sink.close()
            self._sinks = []

    def _write_row(self) -> None:
        if self._step is not None and self._row:
            for sink in self._sinks:
                sink.scalars(self._step, self._row)
        self._step, self._row = None, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, on_its_way: BaseException | None, __: object) -> None:
        try:
            self.close()
        except StoreError as error:
            if on_its_way is None:
                raise
            if str(on_its_way) != str(error):
                log.error("%s", error)  # what is on its way out comes first


def _number(value: Any) -> float | int:
    value = value.item() if hasattr(value, "item") else value
    return value if type(value) is int else float(value)


class _Sink(Protocol):
    def scalars(self, step: int, values: Mapping[str, float | int]) -> None: ...
    def text(self, step: int, name: str, text: str) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class _Lines:
    """metrics.jsonl."""

    def __init__(self, path: Path, resume_step: int | None) -> None:
        self._path = path
        if path.exists():
            kept = [] if resume_step is None else [row for row in read_rows(path) if row["step"] <= resume_step]
            write_text(path, "".join(json.dumps(row) + "\n" for row in kept))
        try:
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  (open as long as the run)
        except OSError as error:
            raise StoreError(f"cannot write {path}: {reason(error)}") from error

    def scalars(self, step: int, values: Mapping[str, float | int]) -> None:
        row = {"step": step} | {name: value if math.isfinite(value) else None for name, value in values.items()}
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()  # so that a kill loses nothing, and that one can watch
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {reason(error)}") from error

    def text(self, step: int, name: str, text: str) -> None:
        """Texts are for eyes."""

    def flush(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {reason(error)}") from error

    def close(self) -> None:
        self._file.close()


class _Events:
    """An event file of this start, in a folder that may hold those of earlier starts.

    tensorboardX's records and protocol buffers, without its SummaryWriter: that one writes from a thread, where
    `flush` does not wait for what is still queued and a full disk goes unheard.
    """

    def __init__(self, folder: Path, resume_step: int | None, hyperparameters: Mapping[str, Any]) -> None:
        from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined]  (made at its import)
        from tensorboardX.record_writer import RecordWriter

        self._event = Event
        try:
            folder.mkdir(exist_ok=True)
            self._path = folder / _next_name(folder)
            self._records = RecordWriter(str(self._path))
        except OSError as error:
            raise StoreError(f"cannot write in {folder}: {reason(error)}") from error
        self._flushed = time.monotonic()
        self._add(0, file_version="brain.Event:2")
        # "Started at this step: forget it and what comes after." TensorBoard does not heed the first start that it
        # reads, so a new run says it, too.
        self._add(0 if resume_step is None else resume_step + 1, session_log={"status": "START"})
        self._add(0, summary=_hparams(hyperparameters))
        self.flush()

    def scalars(self, step: int, values: Mapping[str, float | int]) -> None:
        self._add(step, summary={"value": [{"tag": name, "simple_value": v} for name, v in values.items()]})

    def text(self, step: int, name: str, text: str) -> None:
        indented = "".join(f"    {line}\n" for line in text.splitlines())  # Markdown's code block: shown as it is
        tensor = {"dtype": "DT_STRING", "string_val": [indented.encode()]}
        metadata = {"plugin_data": {"plugin_name": "text"}}
        self._add(step, summary={"value": [{"tag": name, "tensor": tensor, "metadata": metadata}]})

    def flush(self) -> None:
        try:
            self._records.flush()
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {reason(error)}") from error
        self._flushed = time.monotonic()

    def close(self) -> None:
        self._records.close()

    def _add(self, step: int, **content: Any) -> None:
        event = self._event(wall_time=time.time(), step=step, **content)
        try:
            self._records.write(event.SerializeToString())
        except OSError as error:
            raise StoreError(f"cannot write {self._path}: {reason(error)}") from error
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()


def _next_name(folder: Path) -> str:
    """A name that sorts after all others: TensorBoard reads event files in the order of their names.

    The usual one, by the second, does not do: two starts can fall in one second, and clocks of two machines differ.
    """
    before = [path.name.split(".") for path in folder.glob("events.out.tfevents.*")]
    times = [int(parts[3]) for parts in before if len(parts) > 3 and parts[3].isdigit()]
    return f"events.out.tfevents.{max([int(time.time()), *times]):010d}.{len(before):06d}"


def _hparams(values: Mapping[str, Any]) -> Any:
    """The summary that TensorBoard's HParams tab reads.

    Only this run's values: without a list of all hyperparameters and metrics, TensorBoard makes one from all runs
    that it shows, so that runs whose configs have different fields stand in one table.
    """
    from tensorboardX.summary import hparams

    plain = {
        name: value if isinstance(value, (bool, int, float, str)) else _spelt(value) for name, value in values.items()
    }
    _, session_start, _ = hparams(plain, {})
    return session_start


def _spelt(value: Any) -> str:
    return "none" if value is None else str(value)
