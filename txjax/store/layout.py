"""What lies in a folder of checkpoints, and which of it is complete."""

from __future__ import annotations

import itertools
import logging
import shutil
from pathlib import Path
from typing import Any

from txjax.store.files import StoreError, read_json, reason

TREES = ("params", "opt_state", "progress")
UNFINISHED = ".orbax-checkpoint-tmp"  # orbax's ending for a save that has not been completed
REMOVED = ".removed"  # ours, for a checkpoint that is being removed

log = logging.getLogger(__name__)


def complete_steps(folder: Path) -> list[int]:
    """Steps whose checkpoint is complete, in order."""
    entries = folder.iterdir() if folder.is_dir() else ()
    return sorted(int(entry.name) for entry in entries if _is_step(entry) and _is_complete(entry))


def read_meta(checkpoint: Path) -> dict[str, Any]:
    """A checkpoint's JSON: data, metric, meta and leaves."""
    return read_json(checkpoint / "meta" / "metadata")


def prepare(folder: Path) -> None:
    """Make the folder; finish removals; rename what bears a step's name and is no checkpoint."""
    try:
        folder.mkdir(exist_ok=True)
        for entry in sorted(folder.iterdir()):
            if entry.name.endswith(REMOVED):
                shutil.rmtree(entry)
            elif entry.name.endswith(UNFINISHED):
                log.warning("ignored %s: a save that was cut short", entry)
            elif _is_step(entry) and not _is_complete(entry):
                aside = entry.rename(_aside(entry))
                log.warning("renamed %s to %s: it is no complete checkpoint", entry, aside.name)
    except OSError as error:
        raise StoreError(f"cannot write in {folder}: {reason(error)}: use another --workdir") from error


def out_of_view(checkpoint: Path) -> Path:
    """Rename a checkpoint that is to be removed: a kill while that goes on leaves no half of one behind."""
    removed = checkpoint.with_name(f"{checkpoint.name}{REMOVED}")
    try:
        return checkpoint.rename(removed)
    except OSError as error:
        raise StoreError(f"cannot remove the old checkpoint {checkpoint}: {reason(error)}") from error


def _is_step(entry: Path) -> bool:
    return entry.name.isdecimal() and str(int(entry.name)) == entry.name


def _is_complete(folder: Path) -> bool:
    """A folder that got its final name with all its pieces; orbax alone would take an empty one for a checkpoint."""
    return (folder / "_CHECKPOINT_METADATA").is_file() and all(_filled(folder / name) for name in (*TREES, "meta"))


def _filled(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except OSError:  # not there, or no longer: its run is removing it
        return False


def _aside(entry: Path) -> Path:
    """A free name for what is no checkpoint."""
    endings = itertools.chain(["incomplete"], (f"incomplete-{number}" for number in itertools.count(2)))
    return next(path for ending in endings if not (path := entry.with_name(f"{entry.name}.{ending}")).exists())
