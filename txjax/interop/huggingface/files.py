"""Tensors in safetensors files, one file or shards with an index: taken out and put in one at a time.

Layout, as huggingface.co/docs/safetensors gives it: the length of the header as a little-endian uint64, the header, a
JSON object of type, shape and offsets by name, and the tensors' bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  numpy knows bfloat16 from then on
import numpy as np
from safetensors import SafetensorError, safe_open

from txjax.schema import ConfigError
from txjax.store.files import reason

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = 5_000_000_000  # bytes of a file, at most, as transformers cuts them; a larger tensor has a file of its own
FLOATS = ("F64", "F32", "F16", "BF16")


class Stored:
    """A tensor in a file, read when numpy asks for it."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name
        entry = file.get_slice(name)
        self.shape, self.type = tuple(entry.get_shape()), entry.get_dtype()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self._file.get_tensor(self._name), dtype)


def stored(folder: Path) -> dict[str, Stored]:
    """The tensors of a folder by name. ConfigError where files are missing, cut off or contradict the index."""
    index = folder / INDEX
    if index.is_file():
        return _indexed(folder, read_json(index))
    if (folder / WEIGHTS).is_file():
        return _tensors(folder / WEIGHTS)
    pickled = next((path.name for path in sorted(folder.glob("*.bin"))), None)
    instead = "" if pickled is None else f": {pickled} is a pickle; save it anew with safe_serialization"
    raise ConfigError(f"{folder} has neither {WEIGHTS} nor {INDEX}{instead}")


def _indexed(folder: Path, index: Any) -> dict[str, Stored]:
    where = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(where, dict):
        raise ConfigError(f"{folder / INDEX} has no weight_map")
    shards = {name: _tensors(folder / Path(name).name) for name in sorted(set(where.values()))}
    astray = [name for name, shard in where.items() if name not in shards[shard]]
    if astray:
        raise ConfigError(f"{folder / INDEX} puts {astray[0]} into {where[astray[0]]}, which does not hold it")
    return {name: tensor for shard in shards.values() for name, tensor in shard.items()}


def _tensors(path: Path) -> dict[str, Stored]:
    try:
        # read, not mapped: a mapped file's pages count as memory until the system takes them back
        file = safe_open(path, "numpy", backend="pread")
        return {name: Stored(file, name) for name in file.keys()}  # noqa: SIM118  it is no dict
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from None
    except SafetensorError as error:
        raise ConfigError(f"{path} is no safetensors file, or is cut off: {error}") from None


def put(
    folder: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterable[tuple[str, np.ndarray]], shard: int
) -> None:
    """Write float32 tensors, which come in the order of `shapes`, in files of at most `shard` bytes each."""
    parts = _parts(shapes, shard)
    coming = iter(tensors)
    for path, part in zip(_paths(folder, len(parts)), parts, strict=True):
        _put_one(path, {name: shapes[name] for name in part}, coming)
    if len(parts) > 1:
        where = {name: path.name for path, part in zip(_paths(folder, len(parts)), parts, strict=True) for name in part}
        total = sum(4 * math.prod(shape) for shape in shapes.values())
        text = json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=2)
        (folder / INDEX).write_text(text, encoding="utf-8")


def _parts(shapes: Mapping[str, tuple[int, ...]], shard: int) -> list[list[str]]:
    """Names of the tensors of each file, in order."""
    parts: list[list[str]] = [[]]
    room = shard
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        if size > room and parts[-1]:
            parts.append([])
            room = shard
        parts[-1].append(name)
        room -= size
    return parts


def _paths(folder: Path, count: int) -> list[Path]:
    if count == 1:
        return [folder / WEIGHTS]
    return [folder / f"model-{i + 1:05}-of-{count:05}.safetensors" for i in range(count)]


def _put_one(path: Path, shapes: Mapping[str, tuple[int, ...]], tensors: Iterator[tuple[str, np.ndarray]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # which transformers asks for
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of 8
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            given, tensor = next(tensors)
            assert given == name and tensor.shape == shapes[name]
            file.write(np.ascontiguousarray(tensor, "<f4").data)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from None
    except ValueError:
        raise ConfigError(f"{path} is no JSON, or is cut off") from None
