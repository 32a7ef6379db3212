"""The table of a study: a row for each cell that ran, with its levels, its seed, its state and its values."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Level = str | float | int | bool | None
State = Literal["finished", "diverged", "failed", "pruned"]
Phase = Literal["tuning", "report"]
ArmKey = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Row:
    """levels: a level of each factor, by the factor's name. tuned: values of the nuisances. seed: of the run.
    phase: tuning rows choose the nuisances, report rows are what a verdict is over.
    state: finished; diverged: the loss was not finite, a result; failed: it raised, not a result; pruned: a sweep has
        ended it early.
    values: the read-outs by metric name. censored: names of those that are bounds, because the budget ended first.
    facts: what else is known of the cell (parameters, FLOPs, seconds, its folder).
    """

    levels: Mapping[str, Level]
    seed: int
    values: Mapping[str, float]
    state: State = "finished"
    phase: Phase = "report"
    tuned: Mapping[str, float] = field(default_factory=dict)
    censored: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Rows, in any order."""

    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, keep: Callable[[Row], bool]) -> Table:
        return Table(tuple(row for row in self.rows if keep(row)))

    def phase(self, phase: Phase) -> Table:
        return self.where(lambda row: row.phase == phase)

    @property
    def seeds(self) -> list[int]:
        return sorted({row.seed for row in self.rows})

    @property
    def factors(self) -> dict[str, tuple[Level, ...]]:
        """The levels of each factor, in the order in which they first occur."""
        found: dict[str, dict[Level, None]] = {}
        for row in self.rows:
            for name, level in row.levels.items():
                found.setdefault(name, {})[level] = None
        return {name: tuple(levels) for name, levels in found.items()}

    @property
    def arms(self) -> list[dict[str, Level]]:
        """The combinations of levels that occur, in the order in which they first do."""
        found = {arm_key(row.levels): dict(row.levels) for row in self.rows}
        return list(found.values())

    def of_arm(self, levels: Mapping[str, Level]) -> Table:
        return self.where(lambda row: arm_key(row.levels) == arm_key(levels))

    def to_json(self) -> str:
        """One row a line, so that a committed table can be compared by line; values that are not finite are null."""
        return "[\n" + ",\n".join(json.dumps(_plain(dataclasses.asdict(row))) for row in self.rows) + "\n]\n"

    @classmethod
    def from_json(cls, text: str) -> Table:
        def row(data: dict[str, Any]) -> Row:
            values = {name: math.nan if value is None else value for name, value in data["values"].items()}
            return Row(**data | {"values": values, "censored": tuple(data["censored"])})

        return cls(tuple(row(data) for data in json.loads(text)))


def arm_key(levels: Mapping[str, Level]) -> ArmKey:
    return tuple(sorted((name, repr(level)) for name, level in levels.items()))


def arm_name(levels: Mapping[str, Level]) -> str:
    """A short name: the levels, with the last part of the factor's path where a level alone says nothing."""

    def one(name: str, level: Level) -> str:
        return str(level) if isinstance(level, str) else f"{name.rpartition('.')[2]}={level}"

    return " ".join(one(name, level) for name, level in levels.items()) or "base"


class Seed:
    """The cells of one seed: what a contrast makes one number of."""

    def __init__(self, cells: Sequence[tuple[Mapping[str, Level], float]]) -> None:
        self.cells = list(cells)

    def at(self, factor: str, level: Level) -> Seed:
        """The cells at a level of a factor; KeyError where there is none."""
        kept = [(levels, value) for levels, value in self.cells if levels.get(factor) == level]
        if not kept:
            raise KeyError(f"no cell at {factor}={level!r}")
        return Seed(kept)

    def levels(self, factor: str) -> list[Level]:
        return list(dict.fromkeys(levels[factor] for levels, _ in self.cells))

    def mean(self) -> float:
        return math.fsum(value for _, value in self.cells) / len(self.cells)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
