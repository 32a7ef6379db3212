"""Whole files or none: what is written replaces the old file in one step, and a kill leaves one of the two."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any


class StoreError(RuntimeError):
    """What a run wrote cannot be written or read: one sentence with the path and the reason."""


def reason(error: BaseException) -> str:
    """Why, in a few words: the system's own where it has them, else the first line of the message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if found := re.search(r"os_error_code='(\d+)'", str(error)):  # at the end of tensorstore's long messages
        return os.strerror(int(found[1]))
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def write_text(path: Path, text: str) -> None:
    """The file `path` with this text, in UTF-8, on the disk when this returns; StoreError, and the old file, if not.

    The text goes to a temporary file in the same folder, which then takes the name.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {reason(error)}") from error


def write_json(path: Path, data: Any) -> None:
    """`data` as indented JSON, by `write_text`. A number that JSON does not have, NaN say, is a ValueError."""
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON of `path`; StoreError that says where it breaks off, or why it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise StoreError(f"{path} is no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {path}: {reason(error)}") from error


def _sync_folder(folder: Path) -> None:
    """The rename itself on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
