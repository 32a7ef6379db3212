"""Other people's tensors as a table: one row a parameter, with their name for it and their order of its axes.

    Row("layers/attention/query/w", "layers.{layer}.wq", "(N H) D -> D N H")

A parameter of the layers stands for that of every layer, in whatever way the model stacks them; {layer} is its number.
The layout gives the axes of one layer's tensor, theirs and ours; axes in brackets are merged into one. The sizes are
those of our parameter, so that a table needs no numbers, and their shapes follow from a model. More that it can say:

    "D (+N H) -> D N H"      the tensor is fused: this is one of its pieces, which lie along N in the table's order
    "(N +1 H) -> N H"        the same along an axis of theirs alone, of which this piece is one entry
    "experts.{E}.w1"         with "F D -> E D F": the entries of our first axis are tensors of their own
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from txjax.models import Decoder
from txjax.nn.parameters import layer_numbers, path_name, without_layer
from txjax.schema import ConfigError, listed

SHOWN = 10  # tensors in a message


class Axis(NamedTuple):
    """An axis of their tensor. piece: others' pieces lie along it too."""

    name: str
    piece: bool

    def size(self, sizes: Mapping[str, int]) -> int:
        """Entries of it that are ours; an axis that ours lacks is named by its size."""
        return int(self.name) if self.name.isdigit() else sizes[self.name]


@dataclass(frozen=True)
class Row:
    """ours: path of a parameter. theirs: name of their tensor, or tensors. layout: `their axes -> our axes`.
    shift: ours is theirs plus this (a gain that they keep as its distance from 1, say). beside: the row is of models
    alone that have this parameter too, and stands there in the place of one before it.
    """

    ours: str
    theirs: str
    layout: str
    shift: float = 0.0
    beside: str | None = None

    @cached_property
    def their_groups(self) -> list[list[Axis]]:
        groups = re.findall(r"\(.*?\)|\S+", self.layout.split("->")[0])
        return [[_axis(axis) for axis in group.strip("()").split()] for group in groups]

    @cached_property
    def their_axes(self) -> list[Axis]:
        return [axis for group in self.their_groups for axis in group]

    @cached_property
    def shared(self) -> list[str]:
        """Their axes that are ours too, in their order."""
        return [axis.name for axis in self.their_axes if not axis.name.isdigit()]

    @cached_property
    def our_axes(self) -> list[str]:
        """Ours that lie in one tensor of theirs."""
        return [axis for axis in self.layout.split("->")[1].split() if axis != self.spread]

    @cached_property
    def spread(self) -> str | None:
        """Our first axis, where its entries are tensors of their own."""
        first = self.layout.split("->")[1].split()[0]
        return first if f"{{{first}}}" in self.theirs else None

    @cached_property
    def along(self) -> int | None:
        """Which of their axes, all apart, pieces lie along."""
        return next((i for i, axis in enumerate(self.their_axes) if axis.piece), None)

    def name(self, layer: int, entry: int) -> str:
        named = {"layer": layer} if self.spread is None else {"layer": layer, self.spread: entry}
        return self.theirs.format(**named)

    def apart(self, shape: tuple[int, ...]) -> list[int]:
        """Sizes of their axes, none merged, of the piece that is our parameter of that shape."""
        sizes = dict(zip(self.our_axes, shape, strict=True))
        return [axis.size(sizes) for axis in self.their_axes]

    def merged(self, apart: Sequence[int]) -> tuple[int, ...]:
        left = iter(apart)
        return tuple(math.prod(next(left) for _ in group) for group in self.their_groups)

    def to_ours(self, piece: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """A piece of their tensor as our parameter of that shape."""
        sizes = dict(zip(self.our_axes, shape, strict=True))
        return piece.reshape([sizes[axis] for axis in self.shared]).transpose(
            [self.shared.index(axis) for axis in self.our_axes]
        )

    def to_theirs(self, ours: np.ndarray) -> np.ndarray:
        """Our parameter as a piece of their tensor, its axes apart."""
        return ours.transpose([self.our_axes.index(axis) for axis in self.shared]).reshape(self.apart(ours.shape))


def _axis(text: str) -> Axis:
    """`N`, or `+N` a piece."""
    match = re.fullmatch(r"(\+?)(\w+)", text)
    if match is None:
        raise ValueError(f"{text!r} is no axis of a layout")
    return Axis(match[2], bool(match[1]))


Table = tuple[Row, ...]


class Place(NamedTuple):
    """Where a piece of one of their tensors lies among our parameters: in the leaf of that path, at an index where the
    leaf stacks layers, or the entries of a spread axis. shape: ours, of the piece.
    """

    row: Row
    path: str
    index: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One of their tensors: the pieces of ours that lie in it, one after the other."""

    pieces: tuple[Place, ...]

    @cached_property
    def apart(self) -> list[int]:
        """Sizes of its axes, none merged."""
        first = self.pieces[0]
        sizes = first.row.apart(first.shape)
        if first.row.along is not None:
            sizes[first.row.along] = self.ends[-1]
        return sizes

    @cached_property
    def ends(self) -> list[int]:
        """Where each piece ends on the axis that they lie along."""
        ends, end = [], 0
        for row, _, _, shape in self.pieces:
            assert row.along is not None
            end += row.apart(shape)[row.along]
            ends.append(end)
        return ends

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pieces[0].row.merged(self.apart)

    def split(self, theirs: np.ndarray) -> Iterator[tuple[Place, np.ndarray]]:
        """Each piece with its values, as ours."""
        whole = theirs.reshape(self.apart)
        for i, place in enumerate(self.pieces):
            piece, along = whole, place.row.along
            if along is not None:
                end = self.ends[i]
                there = slice(end - place.row.apart(place.shape)[along], end)
                piece = whole[(slice(None),) * along + (there,)]
            yield place, place.row.to_ours(piece, place.shape)

    def join(self, ours: Sequence[np.ndarray]) -> np.ndarray:
        """The tensor of its pieces, the inverse of `split`."""
        first = self.pieces[0].row
        pieces = [place.row.to_theirs(x) for place, x in zip(self.pieces, ours, strict=True)]
        if first.along is None:
            return pieces[0].reshape(self.shape)
        whole = np.empty(self.apart, pieces[0].dtype)
        for end, piece in zip(self.ends, pieces, strict=True):
            there = slice(end - piece.shape[first.along], end)
            whole[(slice(None),) * first.along + (there,)] = piece
        return whole.reshape(self.shape)


def places(table: Table, model: Decoder) -> dict[str, Tensor]:
    """Every tensor that a checkpoint of this model holds, by their name, in the table's order, layer after layer."""
    leaves = [(path_name(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(model.shapes())]
    names = {None, *(without_layer(name) for name, _ in leaves)}
    rows = {row.ours: (order, row) for order, row in enumerate(table) if row.beside in names}
    found: list[tuple[tuple[int, int, int], Place]] = []
    for name, leaf in leaves:
        if without_layer(name) not in rows:
            raise ConfigError(f"the layout has no place for the parameter {name} of this model")
        order, row = rows[without_layer(name)]
        numbers = layer_numbers(name, model.config)
        stacked = numbers is not None and numbers.ndim > 0
        shape = leaf.shape[1:] if stacked else leaf.shape
        for at, layer in enumerate([0] if numbers is None else np.atleast_1d(numbers).tolist()):
            index = (at,) if stacked else ()
            if row.spread is None:
                found.append(((order, layer, 0), Place(row, name, index, shape)))
            else:
                entries = range(shape[0])
                found += [((order, layer, entry), Place(row, name, (*index, entry), shape[1:])) for entry in entries]
    tensors: dict[str, list[Place]] = {}
    for (_, layer, entry), place in sorted(found, key=lambda item: item[0]):
        tensors.setdefault(place.row.name(layer, entry), []).append(place)
    return {name: Tensor(tuple(pieces)) for name, pieces in tensors.items()}


def read(table: Table, model: Decoder, tensors: Mapping[str, Any]) -> Any:
    """The model's parameters, float32 in host memory, from tensors by their names.

    tensors: anything with a shape that numpy.asarray takes; each is taken once and let go before the next, so they may
    be read when asked for. ConfigError names every tensor that is missing, of another shape, or not in the table.
    """
    wanted = places(table, model)
    _refuse_others({name: tensor.shape for name, tensor in wanted.items()}, tensors)
    leaves = {
        path_name(path): np.empty(leaf.shape, leaf.dtype)
        for path, leaf in jax.tree_util.tree_leaves_with_path(model.shapes())
    }

    def fill(tensor: Tensor, theirs: np.ndarray) -> None:
        for place, ours in tensor.split(theirs):
            leaf, shift = leaves[place.path], place.row.shift
            leaf[place.index] = np.add(ours, shift, dtype=leaf.dtype) if shift else ours

    for name, tensor in wanted.items():
        fill(tensor, np.asarray(tensors[name]))
    return jax.tree_util.tree_map_with_path(lambda path, _: leaves[path_name(path)], model.shapes())


def write(table: Table, model: Decoder, params: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Name and tensor, theirs, one after the other in the table's order: the inverse of `read`, bit for bit."""
    leaves = {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
    for name, tensor in places(table, model).items():
        yield name, tensor.join([value(leaves[place.path], place) for place in tensor.pieces])


def value(leaf: Any, place: Place) -> np.ndarray:
    """What a piece holds, less its shift."""
    ours = np.asarray(leaf[place.index] if place.index else leaf)
    return ours - np.asarray(place.row.shift, ours.dtype) if place.row.shift else ours


def _refuse_others(wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Any]) -> None:
    wrong = [f"{name} is missing" for name in wanted if name not in tensors]
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if name not in wanted:
            wrong.append(f"{name} {list(shape)} is not of this model")
        elif shape != wanted[name]:
            wrong.append(f"{name} must be {list(wanted[name])}, is {list(shape)}")
    if wrong:
        raise ConfigError(f"the weights do not fit the model: {listed(wrong, SHOWN, '; ')}")
