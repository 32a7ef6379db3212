"""Devices as a mesh, and where each array lies on it: logical axis names in, shardings out. No model knows of it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from txjax.config import Mesh as MeshConfig
from txjax.config.train import MESH_AXES
from txjax.schema import ConfigError


@dataclass(frozen=True)
class Layout:
    """A mesh and the config's rules: parameters by `parameter_rules`, activations by `activation_rules`."""

    mesh: jax.sharding.Mesh | AbstractMesh
    config: MeshConfig

    @cached_property
    def size(self) -> dict[str, int]:
        return dict(zip(self.mesh.axis_names, self.mesh.axis_sizes, strict=True))

    def replicated(self) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec())

    def batch(self) -> NamedSharding:
        """Rows of a batch over data and fsdp."""
        return NamedSharding(self.mesh, PartitionSpec(_mesh_axes(dict(self.config.activation_rules)["batch"])))

    @property
    def batch_devices(self) -> int:
        return self.size["data"] * self.size["fsdp"]

    def parameters(self, axes: Any, shapes: Any) -> Any:
        """A sharding for each parameter; ConfigError where a dimension does not divide over its mesh axis."""
        rules = dict(self.config.parameter_rules)

        def place(path: tuple[Any, ...], names: tuple[str, ...], shape: Any) -> NamedSharding:
            spec = []
            for name, length in zip(names, shape.shape, strict=True):
                if name not in rules:
                    raise ConfigError(f"mesh.parameter_rules has no rule for the axis {name!r} of {_name(path)}")
                over = _mesh_axes(rules[name])
                if length % math.prod(self.size[a] for a in over or ()):
                    raise ConfigError(
                        f"{_name(path)}: {name}={length} does not divide over mesh.{'+'.join(over or ())}="
                        f"{math.prod(self.size[a] for a in over or ())}: change one of them, "
                        f"or map {name} to none in mesh.parameter_rules"
                    )
                spec.append(over)
            used = [a for over in spec if over for a in over]
            if len(used) != len(set(used)):
                raise ConfigError(f"{_name(path)}: mesh.parameter_rules puts two of its axes {names} on one mesh axis")
            return NamedSharding(self.mesh, PartitionSpec(*spec))

        return jax.tree_util.tree_map_with_path(place, axes, shapes, is_leaf=lambda x: isinstance(x, tuple))

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Inside, with_logical_constraint means this mesh. Trace and call the compiled steps inside."""
        rules = [(name, _mesh_axes(over)) for name, over in self.config.activation_rules]
        enter = jax.sharding.use_abstract_mesh if isinstance(self.mesh, AbstractMesh) else jax.set_mesh
        with enter(self.mesh), nn.logical_axis_rules(rules):  # type: ignore[arg-type]
            yield


def make_layout(config: MeshConfig, devices: Sequence[Any] | None = None) -> Layout:
    """The config's mesh over the given devices, or over all of them; ConfigError where the sizes do not fit."""
    devices = jax.devices() if devices is None else devices
    sizes = resolve(config, len(devices))
    grid = np.array(devices).reshape(sizes)
    return Layout(jax.sharding.Mesh(grid, MESH_AXES, axis_types=(AxisType.Auto,) * 3), config)


def abstract_layout(config: MeshConfig, devices: int) -> Layout:
    """The same without devices: enough to lower a step."""
    return Layout(AbstractMesh(resolve(config, devices), MESH_AXES, axis_types=(AxisType.Auto,) * 3), config)


def resolve(config: MeshConfig, devices: int) -> tuple[int, int, int]:
    """Sizes of data, fsdp and tensor, with a -1 filled in."""
    sizes = [config.data, config.fsdp, config.tensor]
    known = math.prod(n for n in sizes if n > 0)
    if -1 in sizes and devices % known == 0:
        sizes[sizes.index(-1)] = devices // known
    if math.prod(sizes) != devices:
        raise ConfigError(
            f"mesh.data={config.data}, mesh.fsdp={config.fsdp}, mesh.tensor={config.tensor} do not make "
            f"{devices} devices: their product must be {devices}, and one of them may be -1"
        )
    return sizes[0], sizes[1], sizes[2]


def check_batch(layout: Layout, batch_size: int, accumulation: int, what: str = "train.batch_size") -> None:
    """ConfigError unless every micro-batch has the same number of rows on each device."""
    devices = layout.batch_devices
    if batch_size % (devices * accumulation):
        nearest = max(1, round(batch_size / (devices * accumulation))) * devices * accumulation
        raise ConfigError(
            f"{what}={batch_size} does not divide over {devices} devices"
            + (f" times train.accumulation={accumulation}" if accumulation > 1 else "")
            + f" (mesh.data times mesh.fsdp): try {nearest}"
        )


def _mesh_axes(over: str | None) -> tuple[str, ...] | None:
    return None if over is None else tuple(over.split("+"))


def _name(path: tuple[Any, ...]) -> str:
    return "/".join(str(getattr(part, "key", part)) for part in path)
