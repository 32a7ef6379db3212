"""Checkpoints by step, each complete or not there: parameters, optimizer state, progress, data position, meta data.

    checkpoints/STEP/params/ opt_state/ progress/      pytrees of arrays (orbax; typed random keys are welcome)
    checkpoints/STEP/meta/                             JSON of process 0: the data's position, the metric, what else the
                                                       caller gives, and what the pytrees hold, leaf by leaf

Each tree is an item of its own, so that any of them can be restored alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath

from txjax.schema import ConfigError
from txjax.store.files import StoreError, reason
from txjax.store.layout import TREES, complete_steps, out_of_view, prepare, read_meta
from txjax.store.leaves import describe, filled, mismatches, target
from txjax.store.processes import on_first

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Restored:
    """The pieces of a checkpoint; None for a tree that was not asked for."""

    step: int
    params: Any
    opt_state: Any
    progress: Any
    data: dict[str, Any]
    meta: dict[str, Any]


class Checkpoints:
    """The checkpoints of a folder, to read. Nothing is written, and a run may go on writing meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder).absolute()
        _quiet()

    def steps(self) -> list[int]:
        """Steps with a complete checkpoint on the disk, in order."""
        return complete_steps(self.folder)

    def latest(self) -> int | None:
        """The newest step, or None."""
        return max(self.steps(), default=None)

    def best(self) -> int | None:
        """The step of the lowest metric, the newest of equal ones, or None where no checkpoint has one."""
        metrics = {step: metric for step in self.steps() if (metric := self.metric(step)) is not None}
        return min(metrics, key=lambda step: (metrics[step], -step), default=None)

    def metric(self, step: int) -> float | None:
        """What a checkpoint is compared with others by, or None."""
        return read_meta(self.folder / str(step))["metric"]

    def find(self, which: int | Literal["latest", "best"]) -> int:
        """The step meant; ConfigError that lists what there is where there is no such checkpoint."""
        step = self.latest() if which == "latest" else self.best() if which == "best" else which
        steps = self.steps()
        if step is None or step not in steps:
            there = f"there are {', '.join(map(str, steps))}" if steps else "there are none"
            raise ConfigError(f"--step: {self.folder} has no checkpoint {which}: {there}")
        return step

    def restore(self, step: int, *, params: Any = None, opt_state: Any = None, progress: Any = None) -> Restored:
        """The pieces asked for, bit for bit as saved, in the trees given: the same structure, leaf types and places.

        A leaf of a given tree is a ShapeDtypeStruct or an array, whose shape, type and sharding (any devices, not
        only those of the save) the result has; or a numpy array or a number, and the result has the same kind.
        ConfigError with a line for each leaf that is missing, unexpected or of another shape or type: nothing is
        cast, nothing keeps an initial value. StoreError where the files cannot be read.
        """
        folder = self.folder / str(self.find(step))
        meta = read_meta(folder)
        asked = {"params": params, "opt_state": opt_state, "progress": progress}
        asked = {name: tree for name, tree in asked.items() if tree is not None}
        _refuse_other(folder, meta["leaves"], asked)
        trees = asked | _read(folder, {name: tree for name, tree in asked.items() if jax.tree.leaves(tree)})
        return Restored(step=step, data=meta["data"], meta=meta["meta"], **dict.fromkeys(TREES) | trees)

    def look(self, step: int, piece: Literal["params", "opt_state", "progress"] = "params") -> Any:
        """A piece as dicts and lists of numpy arrays, without knowing its tree: only to look.

        Tuples come as lists, named tuples as dicts, random keys as their bits.
        """
        folder = epath.Path(self.folder / str(self.find(step)) / piece)
        handler = ocp.PyTreeCheckpointHandler()
        try:
            tree = handler.metadata(folder).tree
            arrays = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
            return handler.restore(folder, args=ocp.args.PyTreeRestore(restore_args=arrays))
        except Exception as error:
            raise StoreError(f"cannot read {folder}: {reason(error)}") from error
        finally:
            handler.close()


class CheckpointWriter(Checkpoints):
    """The checkpoints of a run, to write and read. In a run of several processes, all of them make the same calls.

    The last `keep_last` and the best are kept; older ones are removed once a newer is complete. Unfinished saves of a
    process that was killed are ignored, and replaced when their step comes again. What bears a step's name and is no
    complete checkpoint (half a copy, say) is renamed to STEP.incomplete. Nothing else is touched.

    Usable in a `with` block: its end is `close`, so that leaving it without an error means that the last checkpoint
    is there.
    """

    def __init__(self, folder: Path, *, keep_last: int) -> None:
        super().__init__(folder)
        self._keep_last = keep_last
        on_first(lambda: prepare(self.folder))
        # Folders are made in `save` itself: made by a thread, one that fails leaves threads waiting for it, and the
        # process does not end for minutes.
        self._saver = ocp.AsyncCheckpointer(
            ocp.CompositeCheckpointHandler(),
            async_options=ocp.AsyncOptions(create_directories_asynchronously=False),
        )
        self._remover = ThreadPoolExecutor(max_workers=1)
        self._pending: int | None = None  # a step that is being written
        self._failure: StoreError | None = None

    def save(
        self,
        step: int,
        *,
        params: Any,
        opt_state: Any,
        progress: Any,
        data: dict[str, Any],
        metric: float | None = None,
        meta: dict[str, Any] | None = None,
    ) -> bool:
        """Begin a checkpoint of this step, after the one before it is complete. What is given may change at once.

        The arrays are copied before this returns, so the next step may donate them, and written in the background.
        metric: by which `best` is chosen, the least; None or not finite: not a candidate.
        False, and nothing done, where this step is the newest checkpoint already: the last of a run may coincide with
        one of the interval, and a finished run be started again. StoreError where the step lies before the newest
        one, and where a save, this or an earlier one, has failed; from then on every call raises it.
        """
        self.wait()
        newest = self.latest()
        if newest == step:
            log.info("checkpoint %d is there already", step)
            return False
        if newest is not None and newest > step:
            raise StoreError(
                f"{self.folder} has a checkpoint {newest}, and {step} lies before it: resume from {newest}"
            )
        trees = dict(zip(TREES, (params, opt_state, progress), strict=True))
        leaves = {name: describe(tree) for name, tree in trees.items()}
        best_by = None if metric is None or not math.isfinite(metric) else float(metric)
        contents = {"data": data, "meta": meta or {}, "metric": best_by, "leaves": leaves}
        json.dumps(contents)  # what JSON does not have is a TypeError here and not in a thread
        pieces: dict[str, Any] = {name: ocp.args.StandardSave(filled(tree)) for name, tree in trees.items()}
        pieces["meta"] = ocp.args.JsonSave(contents)
        self._pending = step
        try:
            self._saver.save(self.folder / str(step), args=ocp.args.Composite(**pieces))
        except Exception as error:
            raise self._failed(error) from error
        return True

    def wait(self) -> None:
        """Until the checkpoint that is being written is complete; StoreError, naming its step, where it failed."""
        if self._failure is not None:
            raise self._failure
        if self._pending is None:
            return
        try:
            self._saver.wait_until_finished()
        except Exception as error:
            raise self._failed(error) from error
        if self._pending not in self.steps():
            raise self._failed(FileNotFoundError("orbax reported no error, yet it is not there"))
        self._pending = None
        on_first(self._prune)

    def close(self) -> None:
        """Wait, and let the threads go. StoreError unless the last checkpoint begun is complete on the disk."""
        try:
            self.wait()
        finally:
            self._remover.shutdown()
            with contextlib.suppress(Exception):  # `wait` has told
                self._saver.close()

    def _prune(self) -> None:
        """Remove what need not be kept: from view now, from the disk in the background."""
        steps = self.steps()
        for step in set(steps[: -self._keep_last]) - {self.best()}:
            self._remover.submit(shutil.rmtree, out_of_view(self.folder / str(step)), ignore_errors=True)

    def _failed(self, error: Exception) -> StoreError:
        self._failure = StoreError(f"checkpoint {self._pending} was not saved in {self.folder}: {reason(error)}")
        return self._failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, on_its_way: BaseException | None, __: object) -> None:
        try:
            self.close()
        except StoreError as error:
            if on_its_way is None:
                raise
            if on_its_way is not error:
                log.error("%s", error)  # what is on its way out comes first


def _read(folder: Path, trees: dict[str, Any]) -> dict[str, Any]:
    if not trees:
        return {}
    pieces = {name: ocp.args.StandardRestore(target(tree)) for name, tree in trees.items()}
    try:
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            return dict(checkpointer.restore(folder, args=ocp.args.Composite(**pieces)).items())
    except Exception as error:
        raise StoreError(f"cannot read the checkpoint {folder}: {reason(error)}") from error


def _refuse_other(folder: Path, saved: dict[str, dict[str, str]], asked: dict[str, Any]) -> None:
    lines = [f"  {name}/{line}" for name in asked for line in mismatches(saved[name], describe(asked[name]))]
    if lines:
        raise ConfigError(f"the checkpoint {folder} is of another model or optimizer:\n" + "\n".join(lines))


def _quiet() -> None:
    """Keep orbax's log lines out of the run's: what matters of them is raised from here."""
    absl = logging.getLogger("absl")
    if _not_orbax not in absl.filters:
        absl.addFilter(_not_orbax)


def _not_orbax(record: logging.LogRecord) -> bool:
    return "orbax" not in Path(record.pathname).parts
