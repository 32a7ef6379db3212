"""Trees by layer: parameters, their gradients and captures lie stacked over the periods of a model's pattern."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import Array


def by_layer(tree: Mapping[str, Any]) -> list[Any]:
    """The part of each layer, in order, of a tree of parameters, gradients or captures: first_0, first_1, .., then
    block_0, block_1, .. of the first period, of the second, and so on.
    """
    first = _numbered(tree, "first_")
    blocks = _numbered(tree.get("layers", {}), "block_")
    periods = len(jax.tree.leaves(blocks)[0]) if jax.tree.leaves(blocks) else 0
    return first + [jax.tree.map(lambda leaf, i=i: leaf[i], block) for i in range(periods) for block in blocks]


def captured(tree: Mapping[str, Any], name: str) -> list[Array]:
    """What each layer sowed under a name, in order; layers that sowed none are left out."""
    found = (_find(layer, name) for layer in by_layer(tree))
    return [value for value in found if value is not None]


def _numbered(tree: Mapping[str, Any], prefix: str) -> list[Any]:
    names = [name for name in tree if name.startswith(prefix)]
    return [tree[name] for name in sorted(names, key=lambda name: int(name.removeprefix(prefix)))]


def _find(tree: Any, name: str) -> Array | None:
    if not isinstance(tree, Mapping):
        return None
    if name in tree:
        return tree[name][0]  # a module that is called once sows a tuple of one
    return next((value for inner in tree.values() if (value := _find(inner, name)) is not None), None)
