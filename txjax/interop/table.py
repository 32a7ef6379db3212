"""Other people's tensors as a table: one row a parameter, with their name for it and their order of its axes.

    Row("layers/attention/query/w", "layers.{layer}.wq", "(N H) D -> D N H")

A parameter of the layers stands for that of every layer, in whatever way the model stacks them; {layer} is its number.
The layout gives the axes of one layer's tensor, theirs and ours; axes in brackets are merged into one. The sizes are
those of our parameter, so that a table needs no numbers, and their shapes follow from a model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from txjax.models import Decoder
from txjax.nn.parameters import layer_numbers, path_name, without_layer
from txjax.schema import ConfigError

SHOWN = 10  # tensors in a message


@dataclass(frozen=True)
class Row:
    """ours: path of a parameter. theirs: name of their tensor, or tensors. layout: `their axes -> our axes`."""

    ours: str
    theirs: str
    layout: str

    @cached_property
    def their_groups(self) -> list[list[str]]:
        return [group.strip("()").split() for group in re.findall(r"\(.*?\)|\w+", self.layout.split("->")[0])]

    @cached_property
    def their_axes(self) -> list[str]:
        return [axis for group in self.their_groups for axis in group]

    @cached_property
    def our_axes(self) -> list[str]:
        return self.layout.split("->")[1].split()

    def their_shape(self, ours: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of their tensor, for a parameter of shape `ours`."""
        size = dict(zip(self.our_axes, ours, strict=True))
        return tuple(math.prod(size[axis] for axis in group) for group in self.their_groups)

    def to_ours(self, theirs: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Their tensor as our parameter of that shape."""
        size = dict(zip(self.our_axes, shape, strict=True))
        apart = theirs.reshape([size[axis] for axis in self.their_axes])
        return apart.transpose([self.their_axes.index(axis) for axis in self.our_axes])

    def to_theirs(self, ours: np.ndarray) -> np.ndarray:
        """Our parameter as their tensor."""
        turned = ours.transpose([self.our_axes.index(axis) for axis in self.their_axes])
        return turned.reshape(self.their_shape(ours.shape))


Table = tuple[Row, ...]


@dataclass(frozen=True)
class Place:
    """Where one of their tensors lies among our parameters: in the leaf of that path, at an index of its first axis
    where the leaf stacks layers.
    """

    row: Row
    path: str
    index: int | None
    shape: tuple[int, ...]  # ours, of one layer

    @property
    def their_shape(self) -> tuple[int, ...]:
        return self.row.their_shape(self.shape)


def places(table: Table, model: Decoder) -> dict[str, Place]:
    """Every tensor that a checkpoint of this model holds, by their name, in the table's order, layer after layer."""
    rows = {row.ours: (order, row) for order, row in enumerate(table)}
    found: list[tuple[int, int, Place]] = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(model.shapes()):
        name = path_name(path)
        if without_layer(name) not in rows:
            raise ConfigError(f"the layout has no place for the parameter {name} of this model")
        order, row = rows[without_layer(name)]
        numbers = layer_numbers(name, model.config)
        if numbers is not None and numbers.ndim:
            stacked = enumerate(numbers.tolist())
            found += [(order, layer, Place(row, name, index, leaf.shape[1:])) for index, layer in stacked]
        else:
            found.append((order, 0 if numbers is None else int(numbers), Place(row, name, None, leaf.shape)))
    in_order = sorted(found, key=lambda entry: entry[:2])
    return {place.row.theirs.format(layer=layer): place for _, layer, place in in_order}


def read(table: Table, model: Decoder, tensors: Mapping[str, Any]) -> Any:
    """The model's parameters, float32 in host memory, from tensors by their names.

    tensors: anything with a shape that numpy.asarray takes; each is taken once, so they may be read when asked for.
    ConfigError names every tensor that is missing, of another shape, or not in the table.
    """
    wanted = places(table, model)
    _refuse_others({name: place.their_shape for name, place in wanted.items()}, tensors)
    leaves = {
        path_name(path): np.empty(leaf.shape, leaf.dtype)
        for path, leaf in jax.tree_util.tree_leaves_with_path(model.shapes())
    }
    for name, place in wanted.items():
        leaf = leaves[place.path]
        there = ... if place.index is None else place.index
        leaf[there] = place.row.to_ours(np.asarray(tensors[name]), place.shape)
    return jax.tree_util.tree_map_with_path(lambda path, _: leaves[path_name(path)], model.shapes())


def write(table: Table, model: Decoder, params: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Name and tensor, theirs, one after the other in the table's order: the inverse of `read`, bit for bit."""
    leaves = {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
    for name, place in places(table, model).items():
        leaf = leaves[place.path]
        yield name, place.row.to_theirs(np.asarray(leaf if place.index is None else leaf[place.index]))


def _refuse_others(wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Any]) -> None:
    wrong = [f"{name} is missing" for name in wanted if name not in tensors]
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if name not in wanted:
            wrong.append(f"{name} {list(shape)} is not of this model")
        elif shape != wanted[name]:
            wrong.append(f"{name} must be {list(wanted[name])}, is {list(shape)}")
    if wrong:
        more = f"; and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise ConfigError(f"the weights do not fit the model: {'; '.join(wrong[:SHOWN])}{more}")
