"""What a pytree holds, leaf by leaf, in words: how a checkpoint is compared with the tree that asks for it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

SHOWN = 10  # of the leaves that differ, in a message


def describe(tree: Any) -> dict[str, str]:
    """`{"layers/wq": "float32[4,128,128]", "key": "key<fry>[]", "step": "int"}`; TypeError for any other leaf."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = [(jax.tree_util.keystr(path, simple=True, separator="/"), leaf) for path, leaf in leaves]
    return {path: _leaf(path, leaf) for path, leaf in named}


def _leaf(path: str, leaf: Any) -> str:
    if isinstance(leaf, jax.Array) and leaf.is_deleted():
        raise ValueError(f"{path} has been donated or deleted: take the arrays of the latest step")
    if hasattr(leaf, "dtype"):
        return f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
    if isinstance(leaf, (bool, int, float)):
        return type(leaf).__name__
    raise TypeError(f"{path} is neither an array nor a number: {leaf!r}")


def mismatches(saved: dict[str, str], asked: dict[str, str]) -> list[str]:
    """A line for each leaf that is missing, unexpected, or of another shape or type; none where all agree."""
    lines = []
    for path in [*asked, *(p for p in saved if p not in asked)]:
        if path not in saved:
            lines.append(f"{path}: asked for as {asked[path]}, not in the checkpoint")
        elif path not in asked:
            lines.append(f"{path}: {saved[path]} in the checkpoint, not asked for")
        elif saved[path] != asked[path]:
            lines.append(f"{path}: {saved[path]} in the checkpoint, asked for as {asked[path]}")
    left_out = len(lines) - SHOWN
    return lines if left_out <= 0 else [*lines[:SHOWN], f"and {left_out} more"]


def filled(tree: Any) -> Any:
    """The tree as orbax takes it for a save: it refuses one that is empty, such as the state of plain SGD can be."""
    return tree if jax.tree.leaves(tree) else [None]


def target(tree: Any) -> Any:
    """The tree as orbax takes it for a restore: shapes with shardings for arrays, the rest as it is.

    A shape without a sharding goes to this process's first device; orbax would look up the devices of the save.
    """
    default = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])

    def leaf(value: Any) -> Any:
        if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
            return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=value.sharding or default)
        return np.asarray(value) if isinstance(value, np.generic) else value

    return jax.tree.map(leaf, tree)
