"""A run's folder: one config, one data set, one writer at a time.

config.json      the resolved config of the last start
run.json         the data's fingerprint, the seeds, and every start: code, versions, devices, command
metrics.jsonl    tb/              txjax.store.metrics
checkpoints/STEP/                 txjax.store.checkpoints
tokenizer/       samples/         whoever makes them writes them
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from txjax.config import Config
from txjax.schema import ConfigError, difference, flatten, from_dict, nearest, to_dict
from txjax.store.files import StoreError, read_json, reason, write_json
from txjax.store.lock import NAME as LOCK_FILE
from txjax.store.lock import Lock
from txjax.store.processes import is_first, on_first
from txjax.store.provenance import start

if TYPE_CHECKING:
    from txjax.store.checkpoints import Checkpoints, CheckpointWriter
    from txjax.store.metrics import Metrics

# What a resumed run may change without becoming another experiment: fields, or whole sections. Everything else is
# part of what the run is; train.steps too, since a schedule reaches its end there.
MAY_CHANGE = {
    "log": "what is written down, not what is computed",
    "mesh": "the same step laid out on other devices: values agree up to the order of float sums",
    "train.loss_chunk": "the same loss with more or less of it in memory at once",
    "train.evaluate_batch_size": "the same sums over the validation set, in other batches",
    "train.checkpoint_every": "when the state is kept",
    "train.keep_last": "how many states are kept",
}


class Run:
    """A run's folder, held by this process (`open`) or only looked at (`read`).

    folder: absolute. config: as resolved. resumed: whether the folder held this run before.
    Usable in a `with` block, which lets the folder go at its end. Opened by several processes of one run, the first
    writes and the rest wait for its word, so all of them call the same methods.
    """

    def __init__(
        self, folder: Path, config: Config, *, resumed: bool, writable: bool, lock: Lock | None = None
    ) -> None:
        self.folder = folder
        self.config = config
        self.resumed = resumed
        self._writable = writable
        self._lock = lock

    @classmethod
    def open(
        cls,
        folder: str | Path | None,
        config: Config,
        *,
        fingerprint: Any,
        name: str = "run",
        command: Sequence[str] | None = None,
    ) -> Run:
        """The folder for this config, made or resumed; None is a new one, runs/NAME-TIME.

        fingerprint: any JSON value that changes when the data does. command: sys.argv unless given.
        ConfigError, with nothing changed in the folder, where it holds a run of another config (the difference is
        shown, one line a leaf; MAY_CHANGE says what may differ) or of other data, holds something else, is in use
        by another process, or cannot be made or written in.
        """
        locks: list[Lock] = []

        def prepare() -> tuple[str, bool]:
            path = _new_folder(name) if folder is None else _made(Path(folder).absolute())
            _refuse_foreign(path)
            locks.append(Lock(path))
            started = start(sys.argv if command is None else command)
            try:
                return str(path), _enter(path, config, fingerprint, started)
            except BaseException:
                locks[0].release()
                raise

        path, resumed = on_first(prepare)
        return cls(Path(path), config, resumed=resumed, writable=True, lock=locks[0] if locks else None)

    @classmethod
    def read(cls, folder: str | Path) -> Run:
        """A run to look at, while it trains too: nothing is written and nothing locked.

        ConfigError where the folder is no run, or its config is not one that this version of the code knows.
        """
        path = Path(folder).absolute()
        if not path.is_dir():
            beside = [p.name for p in path.parent.iterdir() if p.is_dir()] if path.parent.is_dir() else []
            raise ConfigError(f"--workdir: there is no folder {folder}{nearest(path.name, beside)}")
        if not (path / "config.json").is_file():
            raise ConfigError(f"--workdir: {folder} is no run, it has no config.json: give the folder of a run")
        return cls(path, _saved_config(path), resumed=True, writable=False)

    # ------------------------------------------------------------ what it holds

    @property
    def tokenizer(self) -> Path:
        return self.folder / "tokenizer"

    @property
    def samples(self) -> Path:
        return self.folder / "samples"

    @property
    def tensorboard(self) -> Path:
        return self.folder / "tb"

    @property
    def info(self) -> dict[str, Any]:
        """run.json."""
        return read_json(self.folder / "run.json")

    @property
    def saved(self) -> Checkpoints:
        """The checkpoints, to read."""
        from txjax.store.checkpoints import Checkpoints

        return Checkpoints(self.folder / "checkpoints")

    def checkpoints(self, *, keep_last: int) -> CheckpointWriter:
        """The checkpoints, to write: the last `keep_last` and the best are kept."""
        from txjax.store.checkpoints import CheckpointWriter

        self._require_writable()
        return CheckpointWriter(self.folder / "checkpoints", keep_last=keep_last)

    def metrics(self, *, resume_step: int | None) -> Metrics:
        """The metrics, to write, from after `resume_step` on (None: from nothing): what lies beyond it is removed.

        On all processes but the first a Metrics that writes nothing.
        """
        from txjax.store.metrics import Metrics

        self._require_writable()
        return Metrics(
            self.folder if is_first() else None,
            resume_step=resume_step,
            hyperparameters=flatten(self.config),
            tensorboard=self.config.log.tensorboard,
        )

    def rows(self) -> list[dict[str, Any]]:
        """metrics.jsonl, a dict a line."""
        from txjax.store.metrics import read_rows

        return read_rows(self.folder / "metrics.jsonl")

    # ------------------------------------------------------------ its end

    def close(self) -> None:
        """Let the folder go."""
        self._writable = False
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_writable(self) -> None:
        if not self._writable:
            raise StoreError(f"{self.folder} is open to read only: open it with Run.open to write")


# ---------------------------------------------------------------- folders


def _new_folder(name: str) -> Path:
    """runs/NAME-TIME, made now: a second start within the second gets another one."""
    time = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    number = 1
    while True:
        path = Path("runs", f"{name}-{time}" + (f"-{number}" if number > 1 else "")).absolute()
        try:
            path.parent.mkdir(exist_ok=True)
            path.mkdir()
            return path
        except FileExistsError:
            number += 1
        except OSError as error:
            raise ConfigError(f"cannot make the folder {path}: {reason(error)}: give another --workdir") from None


def _made(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ConfigError(f"--workdir: {path} is a file: give a folder") from None
    except OSError as error:
        raise ConfigError(f"cannot make the folder {path}: {reason(error)}: give another --workdir") from None
    return path


def _enter(path: Path, config: Config, fingerprint: Any, started: dict[str, Any]) -> bool:
    """Write or check config.json and run.json; whether the run was there before.

    config.json comes last: a folder without it was left by a start that was killed, and is begun anew.
    """
    fingerprint = json.loads(json.dumps(fingerprint))  # as it comes back: a tuple is a list
    resumed = (path / "config.json").is_file()
    if resumed:
        info = read_json(path / "run.json")
        started["changed"] = _refuse_other(path, _saved_config(path), config)
        _refuse_other_data(path, info["data"], fingerprint)
    else:
        seeds = {name: value for name, value in flatten(config).items() if name.rpartition(".")[2] == "seed"}
        info = {"data": fingerprint, "seeds": seeds, "starts": []}
    write_json(path / "run.json", info | {"starts": [*info["starts"], started]})
    write_json(path / "config.json", to_dict(config))
    return resumed


def _saved_config(path: Path) -> Config:
    try:
        return from_dict(Config, read_json(path / "config.json"))
    except ConfigError as error:
        raise ConfigError(f"{path / 'config.json'} is not of this version: {error}") from None


def _refuse_other(path: Path, before: Config, now: Config) -> dict[str, list[Any]]:
    """What may have changed and has, `{path: [old, new]}`; ConfigError over what may not."""
    changed = difference(before, now)
    refused = [leaf for leaf in changed if not any(f"{leaf}.".startswith(f"{allowed}.") for allowed in MAY_CHANGE)]
    if refused:
        shown = {leaf: tuple(map(_shown, changed[leaf])) for leaf in refused}
        # a leaf of another kind is no leaf here, which reads as none does
        lines = "".join(f"\n  {leaf}: {old} -> {new}" for leaf, (old, new) in shown.items() if old != new)
        raise ConfigError(
            f"{path} holds a run of another config:{lines}\nuse another --workdir, or set these back to resume it"
        )
    return {leaf: list(values) for leaf, values in changed.items()}


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _refuse_other_data(path: Path, old: Any, new: Any) -> None:
    if old != new:
        raise ConfigError(
            f"{path} was trained on other data, {old} -> {new}: put the data back to resume it, "
            f"or use another --workdir"
        )


def _refuse_foreign(path: Path) -> None:
    """ConfigError where a folder without config.json holds anything that a killed start does not leave behind."""
    if (path / "config.json").is_file():
        return
    for entry in path.iterdir():
        if entry.name not in (LOCK_FILE, "run.json") and not entry.name.endswith(".tmp"):
            raise ConfigError(
                f"--workdir: {path} is no run, it has no config.json but holds {entry.name}: give an empty folder"
            )
