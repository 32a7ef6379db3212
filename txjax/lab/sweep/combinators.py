"""What a sweep is made of: points, each {config path: value}, and ways to combine them."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from txjax.schema import ConfigError

Point = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, equally likely by value or by logarithm."""

    low: float
    high: float
    scale: Literal["linear", "log"]

    def __post_init__(self) -> None:
        name = "log_uniform" if self.scale == "log" else "uniform"
        if not self.low < self.high or (self.scale == "log" and self.low <= 0):
            above = ", both above 0" if self.scale == "log" else ""
            raise ConfigError(f"{name}({self.low}, {self.high}): the first must be smaller than the second{above}")

    def draw(self, generator: Random) -> float:
        share = generator.random()
        if self.scale == "linear":
            return self.low + share * (self.high - self.low)
        return self.low * math.exp(share * math.log(self.high / self.low))


Space = Mapping[str, Sequence[Any] | Range]


def uniform(low: float, high: float) -> Range:
    """Any number between the two."""
    return Range(low, high, "linear")


def log_uniform(low: float, high: float) -> Range:
    """Any number between the two, each decade as likely as the next."""
    return Range(low, high, "log")


def grid(choices: Space) -> list[Point]:
    """Every combination of {path: values}; the last path changes fastest."""
    values = [_values(path, some) for path, some in choices.items()]
    return [dict(builtins.zip(choices, row, strict=True)) for row in itertools.product(*values)]


def zip(choices: Space) -> list[Point]:
    """The first value of each path, then the second of each: all have equally many."""
    values = {path: _values(path, some) for path, some in choices.items()}
    if len({len(some) for some in values.values()}) > 1:
        counts = ", ".join(f"{path} has {len(some)}" for path, some in values.items())
        raise ConfigError(f"zip needs equally many values for each path: {counts}")
    return [dict(builtins.zip(values, row, strict=True)) for row in builtins.zip(*values.values(), strict=True)]


def chain(*sweeps: Sequence[Point]) -> list[Point]:
    """The points of the first, then those of the second, and so on."""
    return [point for sweep in sweeps for point in sweep]


def product(*sweeps: Sequence[Point]) -> list[Point]:
    """Every point of the first with every point of the second, and so on; ConfigError where both set one path."""
    points: list[Point] = []
    for row in itertools.product(*sweeps):
        point: Point = {}
        for part in row:
            if twice := sorted(point.keys() & part.keys()):
                raise ConfigError(f"product: {twice[0]} is set by two of its sweeps: leave it to one of them")
            point |= part
        points.append(point)
    return points


def random(space: Space, *, points: int, seed: int = 0) -> list[Point]:
    """So many points, each path drawn from its range or from its values; the same ones for the same seed."""
    generator = Random(seed)
    return [{path: _drawn(path, some, generator) for path, some in space.items()} for _ in range(points)]


def _drawn(path: str, some: Sequence[Any] | Range, generator: Random) -> Any:
    if isinstance(some, Range):
        return some.draw(generator)
    values = _values(path, some)
    return values[int(generator.random() * len(values))]


def _values(path: str, some: Any) -> list[Any]:
    if isinstance(some, Range):
        raise ConfigError(f"{path} has a range and no values: draw from it by random({{...}}, points=N), or let "
                          "--engine=optuna choose")  # fmt: skip
    if isinstance(some, str) or not isinstance(some, Sequence):
        raise ConfigError(f"{path} needs several values, such as ({some!r}, ...), got {some!r}")
    if not some:
        raise ConfigError(f"{path} has no values: give at least one")
    return list(some)
