"""Parameters: how a module asks for one, and how all of them are drawn.

Modules only declare: shape, logical axes, law. `initialise` draws each parameter from a key of its own, folded from
its path and, inside the stack of layers, from the number of its layer. So two models share, bit for bit, every
parameter that both have: scanned or not, deeper or shallower, with one period or another.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
from flax import errors
from jaxtyping import Array

from txjax.config import Model
from txjax.schema import listed

Mean = float | tuple[Any, ...]


class Spec(nn.LogicallyPartitioned):
    """A parameter's box while the model is only declared: its axes (`names`) and its law.

    A parameter is `mean` plus `std` times a standard normal; std 0 is a constant. mean: a number, or nested tuples of a
    shape that broadcasts to the parameter's.
    """

    mean: Mean = flax.struct.field(default=0.0, pytree_node=False)
    std: float = flax.struct.field(default=0.0, pytree_node=False)


def declare(
    module: nn.Module, name: str, shape: tuple[int, ...], axes: tuple[str, ...], *, mean: Mean = 0.0, std: float = 0.0
) -> Array:
    """The module's parameter of that name; see `Spec` for its law."""
    if module.has_variable("params", name):  # linen's `param` would trace the declaration again, to compare the shape
        value = nn.unbox(module.get_variable("params", name))
        if value.shape != shape:
            raise errors.ScopeParamShapeError(name, "/".join(module.path), value.shape, shape)
        return value

    def spec(_: Array) -> Any:
        return Spec(jnp.zeros(shape, jnp.float32), names=axes, mean=mean, std=std)  # type: ignore[call-arg]

    return module.param(name, spec)


def is_spec(leaf: Any) -> bool:
    return isinstance(leaf, Spec)


def path_name(path: tuple[Any, ...]) -> str:
    """layers/block_0/attention/query/w"""
    return "/".join(str(getattr(part, "key", part)) for part in path)


def initialise(specs: Any, key: Array, model: Model) -> Any:
    """All parameters in float32; see the module's first lines. `specs` is a tree of Spec."""
    if not jax.config.jax_threefry_partitionable:  # type: ignore[attr-defined]
        raise RuntimeError("jax_threefry_partitionable must be on: without it, draws depend on their shape")

    def draw(path: tuple[Any, ...], spec: Spec) -> Array:
        name = path_name(path)
        shape = spec.value.shape
        if spec.std == 0.0:
            return jnp.broadcast_to(jnp.asarray(spec.mean, jnp.float32), shape)
        own = jax.random.fold_in(key, _name_to_int(without_layer(name)))
        layers = layer_numbers(name, model)
        if layers is None:
            return jnp.asarray(spec.mean) + spec.std * _normal(own, shape)
        keys = jax.vmap(lambda n: jax.random.fold_in(own, n))(jnp.atleast_1d(layers))
        inner = shape[1:] if layers.ndim else shape
        drawn = jax.vmap(lambda k: _normal(k, inner))(keys)
        return jnp.asarray(spec.mean) + spec.std * drawn.reshape(shape)

    return jax.tree_util.tree_map_with_path(draw, specs, is_leaf=is_spec)


def _normal(key: Array, shape: tuple[int, ...]) -> Array:
    # drawn flat and behind a barrier: on jax 0.12 the last bit depends on the shape and on what the draw is fused with
    return jax.lax.optimization_barrier(jax.random.normal(key, (math.prod(shape),), jnp.float32)).reshape(shape)


BLOCK = re.compile(r"^(encoder/)?(layers/block|first)_(\d+)/")


def without_layer(name: str) -> str:
    """The path that a layer's parameter has in every layer: layers/attention/query/w, encoder/layers/..."""
    return BLOCK.sub(lambda match: f"{match[1] or ''}layers/", name)


def layer_numbers(name: str, model: Model) -> Array | None:
    """The numbers of the layers whose parameters a leaf stacks, or of the one layer it belongs to, the first of those
    that share it; None outside.
    """
    match = BLOCK.match(name)
    if match is None:
        return None
    number = int(match[3])
    if match[1]:
        model = model.encoder_model
    if match[2] == "first":
        return jnp.array(number)
    if model.sharing == "periods":
        return jnp.array(len(model.first_layers) + number)
    return len(model.first_layers) + number + len(model.pattern) * jnp.arange(model.periods)


def said_layers(numbers: Sequence[int]) -> str:
    """layer 3, or layers 0, 1"""
    return f"layer{'s' * (len(numbers) > 1)} {listed(list(map(str, numbers)), 8)}"


def _name_to_int(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
