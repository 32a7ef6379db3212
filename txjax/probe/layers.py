"""Trees by layer: parameters, their gradients and captures lie stacked over the periods of a model's pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array

from txjax.models import Model, build
from txjax.models.decoder import Decoder

# self: a model's own layers, of a decoder or an encoder alone; cross: how they read the encoder; encoder: the layers of
# the encoder under them
Part = Literal["self", "cross", "encoder"]
PARTS: tuple[Part, ...] = get_args(Part)


def by_layer(tree: Mapping[str, Any]) -> list[Any]:
    """The part of each layer, in order, of a tree of parameters, gradients or captures: first_0, first_1, .., then
    block_0, block_1, .. of the first period, of the second, and so on. Parameters that periods share are in it only as
    `with_own_layers` gives them.
    """
    first = _numbered(tree, "first_")
    blocks = _numbered(tree.get("layers", {}), "block_")
    periods = len(jax.tree.leaves(blocks)[0]) if jax.tree.leaves(blocks) else 0
    return first + [jax.tree.map(lambda leaf, i=i: leaf[i], block) for i in range(periods) for block in blocks]


def with_own_layers(model: Model, params: Any) -> tuple[Model, Any]:
    """A model whose periods share no parameters, and parameters with which it computes what this one does."""
    if not isinstance(model, Decoder) or model.config.sharing == "none":
        return model, params
    own = build(replace(model.config, sharing="none"))
    return own, jax.tree.map(lambda leaf, like: jnp.broadcast_to(leaf, like.shape), params, own.shapes())


def captured(tree: Mapping[str, Any], name: str, part: Part = "self") -> list[Array]:
    """What each layer of a part sowed under a name, in order; layers that sowed none are left out."""
    return [value for value in sown(tree, name, part) if value is not None]


def sown(tree: Mapping[str, Any], name: str, part: Part = "self") -> list[Array | None]:
    """What each layer of a part sowed under a name, in order, None for one that sowed none. A layer of which nothing
    was captured is not in the tree, and not counted: capture `residual` too, which every layer has.

    attention_weights is (B, N, T, S), for N = 1 where a recurrent decoder aligns; head_outputs (B, N, T, W), as they
    are projected; residual (B, T, D), after the layer. Sublayers are sought in the block: `cross` in that of its name.
    """
    layers = by_layer(tree.get("encoder", {}) if part == "encoder" else tree)
    return [_find(layer.get("cross") if part == "cross" else _without_cross(layer), name) for layer in layers]


def _without_cross(layer: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: inner for name, inner in layer.items() if name != "cross"}


def _numbered(tree: Mapping[str, Any], prefix: str) -> list[Any]:
    names = [name for name in tree if name.startswith(prefix)]
    return [tree[name] for name in sorted(names, key=lambda name: int(name.removeprefix(prefix)))]


def _find(tree: Any, name: str) -> Array | None:
    if not isinstance(tree, Mapping):
        return None
    if name in tree:
        return tree[name][0]  # a module that is called once sows a tuple of one
    return next((value for inner in tree.values() if (value := _find(inner, name)) is not None), None)
