"""Starting a run from another run's parameters: those of the same path and shape, layer by layer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from txjax.config import Model
from txjax.nn.parameters import layer_numbers, path_name, said_layers, without_layer
from txjax.schema import ConfigError, listed
from txjax.store import Run
from txjax.store.layout import read_meta
from txjax.store.leaves import describe
from txjax.train.state import State

Parameter = tuple[str, int | None]  # a path as every layer has it, and the layer's number; None: outside of the layers


class Piece(NamedTuple):
    """Where a parameter lies: in the leaf of that path, or in that entry of it, where it stacks layers."""

    leaf: str
    entry: int | None
    kind: tuple[str, ...]  # type and sizes


@dataclass(frozen=True)
class WarmStart:
    """taken: the pieces of this run's leaves, and those of `step` of `run` that they come from. lines: that, what
    starts anew, and what of the other run is left out.
    """

    run: Run
    step: int
    taken: Mapping[Piece, Piece]
    lines: tuple[str, ...]

    def of(self, state: State) -> State:
        """The state with those parameters; step, optimizer and random key stay those of a new run."""
        tree = self.run.saved.look(self.step)
        saved = {path_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
        into: dict[str, dict[int | None, np.ndarray]] = {}
        for own, there in self.taken.items():
            value = saved[there.leaf]
            into.setdefault(own.leaf, {})[own.entry] = value if there.entry is None else value[there.entry]

        def put(path: tuple[Any, ...], leaf: jax.Array) -> jax.Array:
            entries = into.get(path_name(path))
            return leaf if entries is None else replaced(leaf, entries)

        return replace(state, params=jax.tree_util.tree_map_with_path(put, state.params))


def replaced(leaf: jax.Array, entries: Mapping[int | None, np.ndarray]) -> jax.Array:
    """The leaf, laid out as it is, with some entries of its first axis replaced, or with None all of it."""
    if None in entries:
        return jax.device_put(entries[None], leaf.sharding)
    new, there = np.zeros(leaf.shape, leaf.dtype), np.zeros(len(leaf), bool)
    for entry, value in entries.items():
        new[entry], there[entry] = value, True
    put = jax.device_put(new, leaf.sharding)
    if there.all():
        return put
    return jax.jit(jnp.where, out_shardings=leaf.sharding)(there.reshape(-1, *[1] * (leaf.ndim - 1)), put, leaf)


def warm_start(folder: str, model: Model, params: Any) -> WarmStart:
    """What the latest checkpoint of a run holds for parameters like these, arrays or shapes, of a model that may have
    more layers than that of the run, or fewer: each layer takes those of its number. ConfigError where the folder is no
    run, or nothing in it fits.
    """
    try:
        run = Run.read(folder)
        step = run.saved.find("latest")
    except ConfigError as error:
        raise ConfigError(f"train.init_from={folder!r}: {error}") from None
    there = pieces(read_meta(run.saved.folder / str(step))["leaves"]["params"], run.config.model)
    own = pieces(describe(params), model)
    fits = {name for name, piece in own.items() if name in there and there[name].kind == piece.kind}
    if not fits:
        raise ConfigError(
            f"train.init_from={folder!r}: none of its parameters ({listed(leaves(there, there))}) has a path and shape "
            f"of this model's ({listed(leaves(own, own))}): choose a run of a model like it"
        )
    total = len(leaves(own, own))
    whole = total - len(leaves(own.keys() - fits, own))
    part = len(leaves(fits, own)) - whole
    some = f", and {part} more in some of their layers" if part else ""
    lines = [f"{whole} of {total} parameters are those of step {step} of {run.folder}{some}"]
    for what, names in (
        ("new", leaves(own.keys() - there, own)),
        ("new, of another shape there", leaves((own.keys() & there) - fits, own)),
        ("left there", leaves(there.keys() - own, there)),
    ):
        if names:
            lines.append(f"{what}: {listed(names)}")
    return WarmStart(run, step, {own[name]: there[name] for name in own if name in fits}, tuple(lines))


def pieces(described: Mapping[str, str], model: Model) -> dict[Parameter, Piece]:
    """Where each parameter of each layer lies, from the types and sizes of the leaves (txjax.store.leaves.describe)."""
    found: dict[Parameter, Piece] = {}
    for leaf, what in described.items():
        kind, *sizes = re.findall(r"\w+", what)
        numbers = layer_numbers(leaf, model)
        if numbers is None:
            found[leaf, None] = Piece(leaf, None, (kind, *sizes))
        elif numbers.ndim == 0:
            found[without_layer(leaf), int(numbers)] = Piece(leaf, None, (kind, *sizes))
        else:
            for entry, number in enumerate(numbers.tolist()):
                found[without_layer(leaf), number] = Piece(leaf, entry, (kind, *sizes[1:]))
    return found


def leaves(some: Collection[Parameter], among: Mapping[Parameter, Piece]) -> list[str]:
    """The leaves that some parameters lie in, with the numbers of their layers where those are not all of a leaf's."""
    sizes = Counter(piece.leaf for piece in among.values())
    layers: dict[str, list[int]] = {}
    for (_, layer), piece in ((name, piece) for name, piece in among.items() if name in some):
        layers.setdefault(piece.leaf, []).append(0 if layer is None else layer)

    def said(leaf: str, numbers: list[int]) -> str:
        return leaf if len(numbers) == sizes[leaf] else f"{leaf} of {said_layers(numbers)}"

    return [said(leaf, numbers) for leaf, numbers in layers.items()]
