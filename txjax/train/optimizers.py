"""Optimizers, and the update that puts clipping, decay, rates and parameter groups around them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optax.contrib
from jaxtyping import Array, Float

from txjax.config import Group, Model, Optim
from txjax.config.optim import Optimizer
from txjax.nn.parameters import BLOCK, layer_numbers, path_name, said_layers
from txjax.schema import listed, require


@dataclass(frozen=True)
class AdamW(Optimizer, kind="adamw"):
    """m / (sqrt(v) + eps), m and v the bias-corrected means of the gradient and its square. Kingma and Ba 2015;
    the decay is decoupled: Loshchilov and Hutter 2019.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8

    def check(self) -> None:
        require(all(0 <= b < 1 for b in self.betas), f"betas must be in [0, 1), got {self.betas}")

    def direction(self, axes: Any) -> optax.GradientTransformation:
        return optax.scale_by_adam(*self.betas, eps=self.eps)


@dataclass(frozen=True)
class SGD(Optimizer, kind="sgd"):
    """The gradient, or its running sum m <- momentum m + g."""

    momentum: float = 0.0
    nesterov: bool = False

    def check(self) -> None:
        require(0 <= self.momentum < 1, f"momentum must be in [0, 1), got {self.momentum}")

    def direction(self, axes: Any) -> optax.GradientTransformation:
        return optax.trace(self.momentum, self.nesterov) if self.momentum else optax.identity()


@dataclass(frozen=True)
class Muon(Optimizer, kind="muon"):
    """Orthogonalised momentum for the matrices of the layers, Adam for all else. Jordan et al. 2024.

    An update's root mean square is rms, so that Adam's learning rates serve: Liu et al. 2025.
    """

    momentum: float = 0.95
    rms: float = 0.2
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8

    def direction(self, axes: Any) -> optax.GradientTransformation:
        sides = jax.tree_util.tree_map_with_path(_muon_sides, axes, is_leaf=is_axes)
        muon = optax.contrib.muon(
            1.0,
            beta=self.momentum,
            eps=self.eps,
            weight_decay=0.0,
            muon_weight_dimension_numbers=sides,
            consistent_rms=self.rms,
        )
        # optax's own muon gives the rest Adam with Nesterov momentum, and has the sign of the step
        which = jax.tree_util.tree_map_with_path(
            lambda *of: "muon" if _muon_sides(*of) else "adam", axes, is_leaf=is_axes
        )
        adam = optax.scale_by_adam(*self.betas, eps=self.eps)
        return optax.partition({"muon": optax.chain(muon, optax.scale(-1.0)), "adam": adam}, which)


def is_axes(leaf: Any) -> bool:
    """Whether a node of an axes tree is one parameter's tuple of names."""
    return isinstance(leaf, tuple)


def _muon_sides(path: tuple[Any, ...], axes: tuple[str, ...]) -> optax.contrib.MuonDimensionNumbers | None:
    """Rows and columns of a layer's matrix, or of one expert's: the model's width is one side, every other axis the
    other; else None.
    """
    rest = [i for i, a in enumerate(axes) if a not in ("layers", "experts", "embed")]
    if not BLOCK.match(path_name(path)) or "embed" not in axes or not rest:
        return None
    width = axes.index("embed")
    rows, columns = ((width,), rest) if width < rest[0] else (rest, (width,))
    return optax.contrib.MuonDimensionNumbers(tuple(rows), tuple(columns))


def groups_of(config: Optim, model: Model, path: tuple[Any, ...]) -> tuple[Group, ...]:
    """The group of a parameter in each of the layers that its leaf stacks, or the one of a leaf that stacks none: the
    first of config.groups that has it.
    """
    name = path_name(path)
    numbers = layer_numbers(name, model)
    layers = [None] if numbers is None else np.atleast_1d(numbers).tolist()
    return tuple(next((g for g in config.groups if g.has(name, layer)), OTHERS) for layer in layers)


OTHERS = Group(match="")


def describe_groups(config: Optim, model: Model, parameters: Any) -> list[str]:
    """A line for each group that has parameters: how many, which, and what differs for them."""
    sizes: dict[Group, dict[str, int]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
        groups, name = groups_of(config, model, path), path_name(path)
        for group in groups:
            members = sizes.setdefault(group, {})
            members[name] = members.get(name, 0) + math.prod(leaf.shape) // len(groups)
    lines = []
    for group, members in sizes.items():
        rate, decay = config.learning_rate * group.learning_rate, config.weight_decay * group.weight_decay
        what = f"match {group.match!r}" if group != OTHERS else "all others"
        if group.layers is not None:
            what += f" in {said_layers(group.layers)}"
        count, some = sum(members.values()), listed(list(members), 4)
        lines.append(f"rate {rate:g}, weight decay {decay:g}: {count:,} parameters, {what}: {some}")
    return lines


class Scale(NamedTuple):
    """What learning rate and weight decay are multiplied by: a number each, or one for each layer that a leaf stacks,
    in a shape that broadcasts to it.
    """

    learning_rate: float | np.ndarray
    weight_decay: float | np.ndarray


def scales_of(config: Optim, model: Model, parameters: Any) -> Any:
    """The Scale of each parameter, from its groups."""

    def scale(path: tuple[Any, ...], leaf: Any) -> Scale:
        groups = groups_of(config, model, path)
        if len(set(groups)) == 1:
            return Scale(groups[0].learning_rate, groups[0].weight_decay)
        over_layers = (len(groups),) + (1,) * (len(leaf.shape) - 1)
        columns = zip(*((group.learning_rate, group.weight_decay) for group in groups), strict=True)
        return Scale(*(np.reshape(np.array(column, np.float32), over_layers) for column in columns))

    return jax.tree_util.tree_map_with_path(scale, parameters)


def update(
    config: Optim,
    direction: optax.GradientTransformation,
    scales: Any,
    gradients: Any,
    state: Any,
    parameters: Any,
    rate: Float[Array, ""],
    weight_decay: Float[Array, ""],
    grad_norm: Float[Array, ""],
) -> tuple[Any, Any]:
    """w <- w - rate_g (direction(clip(gradient)) + decay_g w), for the rates and decays of w's group. scales: of
    `scales_of`.

    Returns the change of the parameters and the optimizer's state.
    """
    if config.clip is not None:
        factor = jnp.minimum(1.0, config.clip / jnp.maximum(grad_norm, 1e-30))
        gradients = jax.tree.map(lambda g: g * factor, gradients)
    towards, state = direction.update(gradients, state, parameters)

    def change(d: Array, w: Array, scale: Scale) -> Array:
        decayed = d + (weight_decay * scale.weight_decay) * w if np.any(scale.weight_decay) else d
        moved = -(rate * scale.learning_rate) * decayed
        return moved if np.all(scale.learning_rate) else jnp.where(np.equal(scale.learning_rate, 0.0), 0.0, moved)

    return jax.tree.map(change, towards, parameters, scales), state
