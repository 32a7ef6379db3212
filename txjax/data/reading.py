"""Documents from files: .txt is one document, each line of a .jsonl another; a folder holds any number of both."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from txjax.config.data import Split
from txjax.schema import ConfigError, nearest

SUFFIXES = (".txt", ".jsonl")


def read(path: Path, field: str) -> Iterator[str]:
    """The documents under `path`, folders in the order of their names. `field` of a .jsonl line holds its text.

    Raises ConfigError with file and line for what is not UTF-8, not JSON, without the field, or empty.
    """
    for file in _files(path):
        text = _text(file)
        if not text.strip():
            raise ConfigError(f"{file} is empty: remove it from the data")
        if file.suffix == ".txt":
            yield text
        else:
            yield from _lines(file, text, field)


def file_text(path: Path) -> str:
    """The text of a table, or of a sentence a line, without a byte order mark; of a .gz file, of what is packed."""
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as UTF-8 text: {error}") from None


def lines_of(text: str) -> list[str]:
    """Its lines. Only a line feed ends one: a text may hold what Unicode calls an end of line too."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def own_splits(path: Path) -> dict[Split, Path]:
    """The file or folder of each split by its name, where `path` is a folder with a train and a validation, and
    perhaps a test; nothing where it is no such folder.
    """
    named: dict[Split, Path] = {}
    for side in get_args(Split) if path.is_dir() else ():
        found = [p for p in sorted(path.iterdir()) if p.stem == side and _is_text(p)]
        if len(found) > 1:
            raise ConfigError(f"{path} has {found[0].name} and {found[1].name}: leave one as the {side} split")
        if found:
            named[side] = found[0]
    return named if {"train", "validation"} <= named.keys() else {}


def _is_text(path: Path) -> bool:
    return path.is_dir() or path.suffix in SUFFIXES


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        if not files:
            raise ConfigError(f"folder {path} holds no {' or '.join(SUFFIXES)} file")
        return files
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{path} must be a {' or '.join(SUFFIXES)} file: rename it if it is text")
    return [path]


def _text(file: Path) -> str:
    """The file's text as it is, line ends included, without a byte order mark."""
    try:
        data = file.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{file}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: convert the file, for instance by iconv"
        ) from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


def _lines(file: Path, text: str, field: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield _document(line, field, f"{file}, line {number}")


def _document(line: str, field: str, place: str) -> str:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{place} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ConfigError(f"{place} must be an object with a field {field!r}, got {type(record).__name__}")
    if field not in record:
        raise ConfigError(f"{place} has no field {field!r}{nearest(field, record)}: set data.source.text.field")
    text = record[field]
    if not isinstance(text, str):
        raise ConfigError(f"{place}: {field!r} must be text, got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError(f"{place}: {field!r} holds half of a surrogate pair, which is no character") from None
    return text
