"""Optimizers, and the update that puts clipping, decay, rates and parameter groups around them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib
from jaxtyping import Array, Float

from txjax.config import Group, Optim
from txjax.config.optim import Optimizer
from txjax.nn.parameters import BLOCK, path_name
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


def groups_of(config: Optim, parameters: Any) -> Any:
    """The group of each parameter: the first of config.groups whose expression is found in its path."""

    def first(path: tuple[Any, ...], _: Any) -> Group:
        name = path_name(path)
        return next((g for g in config.groups if re.search(g.match, name)), Group(match=""))

    return jax.tree_util.tree_map_with_path(first, parameters)


def describe_groups(config: Optim, parameters: Any) -> list[str]:
    """A line for each group that has parameters: how many, which, and what differs for them."""
    names: dict[Group, list[tuple[str, int]]] = {}
    groups = jax.tree.leaves(groups_of(config, parameters), is_leaf=lambda x: isinstance(x, Group))
    for (path, leaf), group in zip(jax.tree_util.tree_leaves_with_path(parameters), groups, strict=True):
        names.setdefault(group, []).append((path_name(path), math.prod(leaf.shape)))
    lines = []
    for group, members in names.items():
        rate, decay = config.learning_rate * group.learning_rate, config.weight_decay * group.weight_decay
        what = f"match {group.match!r}" if group.match else "all others"
        count = sum(n for _, n in members)
        some = listed([name for name, _ in members], 4)
        lines.append(f"rate {rate:g}, weight decay {decay:g}: {count:,} parameters, {what}: {some}")
    return lines


def update(
    config: Optim,
    direction: optax.GradientTransformation,
    gradients: Any,
    state: Any,
    parameters: Any,
    rate: Float[Array, ""],
    weight_decay: Float[Array, ""],
    grad_norm: Float[Array, ""],
) -> tuple[Any, Any]:
    """w <- w - rate_g (direction(clip(gradient)) + decay_g w), for the rates and decays of w's group.

    Returns the change of the parameters and the optimizer's state.
    """
    if config.clip is not None:
        factor = jnp.minimum(1.0, config.clip / jnp.maximum(grad_norm, 1e-30))
        gradients = jax.tree.map(lambda g: g * factor, gradients)
    towards, state = direction.update(gradients, state, parameters)

    def change(d: Array, w: Array, group: Group) -> Array:
        if group.learning_rate == 0.0:
            return jnp.zeros_like(w)
        decayed = d + (weight_decay * group.weight_decay) * w if group.weight_decay else d
        return -(rate * group.learning_rate) * decayed

    return jax.tree.map(change, towards, parameters, groups_of(config, parameters)), state
