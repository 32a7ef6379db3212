"""From the points of a sweep to its cells: a config for each, judged before anything runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txjax.config import Config
from txjax.lab.sweep.combinators import Point, Range, Space
from txjax.schema import ConfigError, flatten, literal, with_values

LONGEST = 80  # letters of a cell's name that say what it is


@dataclass(frozen=True)
class SweepCell:
    """id: says what the cell is, and ends in what makes it unique: the name of its folder."""

    id: str
    config: Config
    point: Mapping[str, Any]


def cells_of(base: Config, points: Sequence[Point]) -> list[SweepCell]:
    """A cell for each point, equal ones once; ConfigError where there is none, or one of them makes no config."""
    if not points:
        raise ConfigError("--sweep has no points: give at least one value for one path")
    cells = [cell_of(base, point) for point in points]
    return list({cell.id: cell for cell in cells}.values())


def cell_of(base: Config, point: Mapping[str, Any]) -> SweepCell:
    try:
        config = with_values(base, point)
    except ConfigError as error:
        raise ConfigError(f"--sweep: {error}") from None
    leaves = flatten(config)
    resolved = {path: leaves.get(path, plain(value)) for path, value in point.items()}
    words = " ".join(f"{path.rpartition('.')[2]}={_short(value)}" for path, value in resolved.items())
    name = re.sub(r"[^\w.=+-]+", "-", words)[:LONGEST]
    return SweepCell(f"{name}-{config.digest()}", config, resolved)


def check_space(base: Config, space: Space) -> None:
    """ConfigError where a path of the space names no field, or one of its values does not fit."""
    if not space:
        raise ConfigError("--sweep has no paths: give at least one with its values")
    for path, some in space.items():
        for value in (some.low, some.high) if isinstance(some, Range) else some:
            cell_of(base, {path: value})


def plain(value: Any) -> Any:
    """A point's value for JSON: what it spells, or the kind that it is."""
    value = literal(value) if isinstance(value, str) else value
    return value if value is None or isinstance(value, bool | int | float | str | list) else str(value)


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def digest(description: Any) -> str:
    """Ten hexadecimal digits that name a sweep."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:10]
