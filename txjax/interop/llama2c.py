"""Weights of llama2.c, version 0 of its layout: what its run.c reads.

Little-endian: seven int32 (width, hidden, layers, heads, key/value heads, vocabulary, context; a negative vocabulary
says that the head is not the embedding), then float32 tensors in the order of TABLE, all layers of one kind together.
Before the head lie two tables of cosines and sines that run.c skips. They are no parameters, and are carried from
`read` to `write` so that a file comes out as it went in.

github.com/karpathy/llama2.c, export.py (legacy_export) writes it and run.c reads it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from txjax.config import Model
from txjax.interop import fits, table
from txjax.interop.table import Row
from txjax.models import Decoder, presets
from txjax.nn.feedforwards.dense import Dense
from txjax.ops.positions import Rope
from txjax.schema import ConfigError
from txjax.store.files import StoreError, reason

TABLE = (
    Row("embedding/w", "token_embedding", "V D -> V D"),
    Row("layers/mixer_norm/gain", "rms_att.{layer}", "D -> D"),
    Row("layers/attention/query/w", "wq.{layer}", "(N H) D -> D N H"),
    Row("layers/attention/key/w", "wk.{layer}", "(K H) D -> D K H"),
    Row("layers/attention/value/w", "wv.{layer}", "(K H) D -> D K H"),
    Row("layers/attention/out/w", "wo.{layer}", "D (N H) -> N H D"),
    Row("layers/feedforward_norm/gain", "rms_ffn.{layer}", "D -> D"),
    Row("layers/dense/gate/w", "w1.{layer}", "F D -> D F"),
    Row("layers/dense/out/w", "w2.{layer}", "D F -> F D"),
    Row("layers/dense/in/w", "w3.{layer}", "F D -> D F"),
    Row("final_norm/gain", "rms_final", "D -> D"),
    Row("head/w", "wcls", "V D -> D V"),
)
ROTATION = ("freq_cis_real", "freq_cis_imag")  # before wcls
NEWER = 0x616B3432  # how versions 1 and 2 begin
THETA, EPS = 10_000.0, 1e-5  # constants of run.c


class Header(NamedTuple):
    width: int
    hidden: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    vocab: int
    context: int

    def model(self) -> Model:
        return presets.llama(
            self.width,
            self.num_layers,
            self.num_heads,
            hidden=self.hidden,
            num_kv_heads=self.num_kv_heads,
            context=self.context,
            eps=EPS,
            vocab_size=abs(self.vocab),
            head="tied" if self.vocab > 0 else "linear",  # type: ignore[arg-type]
            position=Rope(theta=THETA, pairs="interleaved"),
        )


@dataclass(frozen=True)
class Weights:
    """rotation: the tables that run.c skips, (context, head_dim / 2) each, or None: computed when they are written."""

    model: Model
    params: Any
    rotation: tuple[np.ndarray, ...] | None = None


def read(path: Path) -> Weights:
    """The model and its weights; ConfigError where the file is cut off, of another size, or something else."""
    try:
        size = path.stat().st_size
        header = Header(*np.fromfile(path, "<i4", len(Header._fields)).tolist())
        numbers = np.memmap(path, "<f4", "r", offset=4 * len(header), shape=size // 4 - len(header))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from None
    except (TypeError, ValueError):
        raise ConfigError(
            f"{path} is no checkpoint of llama2.c: it has {size} bytes, and a header alone has 28"
        ) from None
    model = Decoder(_model(header, path, size))
    shapes = _shapes(model)
    expected = 4 * (len(header) + sum(map(math.prod, shapes.values())))
    if size != expected:
        raise ConfigError(
            f"{path} has {size:,} bytes, and the model of its header, {header}, needs {expected:,}: "
            f"it is {'cut off' if size < expected else 'something else'}"
        )
    tensors = _cut(numbers, shapes)
    rotation = tuple(np.array(tensors.pop(name)) for name in ROTATION)
    return Weights(model.config, table.read(TABLE, model, tensors), rotation)


def write(path: Path, weights: Weights) -> None:
    """The file that `read` reads, whole or not at all. ConfigError where the layout cannot hold the model, StoreError
    where the file cannot be written.
    """
    header = _header(weights.model)
    model = Decoder(weights.model)
    tensors = table.write(TABLE, model, weights.params)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(np.array(header, "<i4").tobytes())
            for tensor in _in_order(tensors, weights.rotation or _rotation(model.config), model.config.head.tied):
                file.write(np.ascontiguousarray(tensor, "<f4").data)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {reason(error)}") from error


def _model(header: Header, path: Path, size: int) -> Model:
    """The model of a header, whose numbers are judged first: another file's may be anything."""
    if header.width == NEWER:
        raise ConfigError(f"{path} has version {header.hidden} of llama2.c's layout: export it with --version 0")
    if not all(0 < abs(n) <= size for n in header) or min(header._replace(vocab=1)) < 0:
        raise ConfigError(f"{path} is no checkpoint of llama2.c: its header would be {list(header)}")
    try:
        return header.model()
    except ConfigError as error:
        raise ConfigError(f"{path} is no checkpoint of llama2.c: {error}") from None


def _header(model: Model) -> Header:
    """The header of a model; ConfigError over the fields of which the layout knows only one value."""
    hidden = model.feedforward.width(model.width) if isinstance(model.feedforward, Dense) else 1
    heads = model.attention.num_heads, model.num_kv_heads
    vocab = model.vocab if model.head.tied else -model.vocab
    header = Header(model.width, hidden, model.num_layers, *heads, vocab, model.context)
    fits.refuse("llama2c's layout", fits.unlike(header.model(), model))
    return header


def _shapes(model: Decoder) -> dict[str, tuple[int, ...]]:
    """Shape of each tensor in the order of the file."""
    shapes = {name: tensor.shape for name, tensor in table.places(TABLE, model).items()}
    head = {name: shapes.pop(name) for name in ("wcls",) if name in shapes}
    pairs = (model.config.context, model.config.head_dim // 2)
    return shapes | dict.fromkeys(ROTATION, pairs) | head


def _cut(numbers: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The tensors of a file, read when they are used."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]
    return {name: x.reshape(shapes[name]) for name, x in zip(shapes, np.split(numbers, ends), strict=True)}


def _in_order(
    tensors: Iterable[tuple[str, np.ndarray]], rotation: Iterable[np.ndarray], tied_head: bool
) -> Iterator[np.ndarray]:
    """The tensors of the table with the rotation before the head."""
    for name, tensor in tensors:
        if name == "wcls":
            yield from rotation
        yield tensor
    if tied_head:
        yield from rotation


def _rotation(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of the float32 angles; PyTorch's differ from these in the last bit here and there."""
    frequency_P = np.float32(1) / np.float32(THETA) ** (
        np.arange(0, model.head_dim, 2, dtype=np.float32) / model.head_dim
    )
    angle_TP = np.outer(np.arange(model.context, dtype=np.float32), frequency_P).astype(np.float64)
    return np.cos(angle_TP).astype(np.float32), np.sin(angle_TP).astype(np.float32)
