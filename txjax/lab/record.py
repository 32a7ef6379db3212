"""The record of a study: what its report says beyond the table and the verdicts, as plain JSON in results/.

Table, verdicts and record together are all that a report is drawn from, so that it can be drawn again without the
study's file, and without its cells.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.lab.arms import Arm
from txjax.lab.cells import Result
from txjax.lab.comparison import compare
from txjax.lab.curves import Histories, prediction_bands
from txjax.lab.evidence import value_of
from txjax.lab.readouts import Metric
from txjax.lab.table import Row, Table, arm_key, arm_name
from txjax.lab.verdicts import Verdict
from txjax.probe.training import theory
from txjax.schema import ConfigError, difference
from txjax.store.files import read_json, write_json, write_text
from txjax.store.provenance import PACKAGE, code_version

if TYPE_CHECKING:
    from txjax.lab.ablate import Outcome

TABLE, VERDICTS, RECORD = "table.json", "verdicts.json", "report.json"
THEORY = "theory/"  # what a study measures as theory/X is what is expected of its figure X


@dataclass(frozen=True)
class Results:
    """What results/ holds. facts: the record, as `gather` makes it."""

    table: Table
    verdicts: tuple[Verdict, ...]
    facts: Mapping[str, Any]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / TABLE, self.table.to_json())
        lines = ",\n".join(verdict.to_json() for verdict in self.verdicts)
        write_text(folder / VERDICTS, f"[\n{lines}\n]\n")
        write_json(folder / RECORD, plain(self.facts))

    @classmethod
    def load(cls, folder: Path) -> Results:
        missing = [name for name in (TABLE, VERDICTS, RECORD) if not (folder / name).is_file()]
        if missing:
            raise ConfigError(f"{folder} has no {missing[0]}: run txjax ablate on the study, which writes it")
        table = Table.from_json((folder / TABLE).read_text(encoding="utf-8"))
        verdicts = [Verdict.from_json(json.dumps(entry)) for entry in read_json(folder / VERDICTS)]
        return cls(table, tuple(verdicts), read_json(folder / RECORD))


def gather(outcome: Outcome) -> Results:
    """Everything that a report says, of a study that has been judged."""
    study, cells = outcome.study, outcome.folder / "cells"
    report = outcome.table.phase("report")
    known = _earlier_differences(outcome.folder / "results" / RECORD)
    histories = Histories.read(outcome.table, cells)
    facts = {
        "name": outcome.name,
        "question": study.question,
        "tier": outcome.tier,
        "scope": outcome.scope,
        "metric": study.metric.name,
        "chosen_by": study.chosen_by.name if study.tuned else None,
        "higher_is_better": study.chosen_by.higher_is_better,
        "registration": _registration(outcome),
        "arms": [_arm(arm, cost, report) for arm, cost in outcome.card.arms],
        "choices": [_choice(choice) for choice in outcome.choices],
        "seeds": _seeds(outcome, report),
        "curves": _curves(outcome, histories),
        "probes": _probes(outcome, histories),
        "levels": _levels(outcome, report, cells),
        "differences": _differences(outcome, known),
        "start": _start(outcome.ledger.data["starts"][-1]),
        "code": {row.facts["cell"]: code for row in outcome.table if (code := _code(cells / row.facts["cell"]))},
    }
    return Results(outcome.table, outcome.verdicts, facts)


def plain(value: Any) -> Any:
    """As JSON has it: numbers that are not finite are null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _registration(outcome: Outcome) -> dict[str, Any]:
    ledger = outcome.ledger
    data = ledger.data
    return {
        "registered": data["registered"],
        "time": data["time"],
        "predictions": data["registration"]["predictions"],
        "budget": data["registration"]["budget"],
        "exploratory": ledger.exploratory,
        "changes": [{"time": c["time"], "registered": c["registered"]} for c in data["changes"]],
        "looks": data["looks"],
    }


def _arm(arm: Arm, cost: Any, report: Table) -> dict[str, Any]:
    seconds = [row.facts["seconds"] for row in report.of_arm(arm.levels) if row.state == "finished"]
    return {
        "name": arm.name,
        **dataclasses.asdict(cost),
        "seconds": statistics.median(seconds) if seconds else None,
        "consequences": {path: list(values) for path, values in arm.consequences.items()},
    }


def _choice(choice: Any) -> dict[str, Any]:
    return {
        "arm": arm_name(choice.levels),
        "best": choice.tuned,
        "edges": dict(choice.edges),
        "settled": choice.settled,
        "curve": [
            {"values": dict(point.values), "score": point.score, "diverged": point.diverged} for point in choice.curve
        ],
    }


def _seeds(outcome: Outcome, report: Table) -> list[dict[str, Any]]:
    """The value of every report cell, for each metric that a verdict was read from."""
    used = {verdict.metric for verdict in outcome.verdicts} | {outcome.study.metric.name}
    return [
        {
            "metric": metric.name,
            "unit": metric.unit,
            "arms": {
                arm_name(arm): {row.seed: _value(row, metric) for row in report.of_arm(arm)} for arm in report.arms
            },
        }
        for metric in outcome.study.metrics
        if metric.name in used
    ]


def _value(row: Row, metric: Metric) -> float:
    judged = row.state == "finished" or row.facts.get("trivial") is not None or not metric.is_loss
    return value_of(row, metric) if judged else math.nan


def _curves(outcome: Outcome, histories: Histories) -> list[dict[str, Any]]:
    return [
        {"prediction": prediction.name, "figure": figure, **dataclasses.asdict(band)}
        for prediction, figure, band in prediction_bands(histories, outcome.study, outcome.verdicts)
    ]


def _probes(outcome: Outcome, histories: Histories) -> list[dict[str, Any]]:
    """What each arm's probes were over training, by layer: the mean over seeds at each step, and theory."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for figure in histories.probed():
        _, name, layer = figure.split("/")
        for arm in outcome.arms:
            means = {
                step: [value for (key, _), value in cells.items() if key == arm_key(arm.levels)]
                for step, cells in histories.points(figure).items()
            }
            curve = {step: statistics.fmean(values) for step, values in means.items() if values}
            if curve:
                entry = {"probe": name, "arm": arm.name, "theory": theory(name, arm.config), "layers": {}}
                found.setdefault((name, arm.name), entry)["layers"][layer.removeprefix("layer_")] = curve
    return list(found.values())


def _levels(outcome: Outcome, report: Table, cells: Path) -> list[dict[str, Any]]:
    """For each factor whose levels are positive numbers, what was measured at each of them: of a study that trains
    nothing all figures that it measured, else the metric.
    """
    found = []
    for factor, levels in report.factors.items():
        if len(levels) < 2 or not all(_is_positive(level) for level in levels):
            continue
        for figure, points in _figures(outcome, report, cells).items():
            curves: dict[str, dict[str, list[float]]] = {}
            for row, value in points:
                rest = {name: level for name, level in row.levels.items() if name != factor}
                arm = arm_name(rest) if rest else figure
                curves.setdefault(arm, {}).setdefault(str(row.levels[factor]), []).append(value)
            found.append({"factor": factor, "figure": figure, "curves": curves})
    return found


def _is_positive(level: Any) -> bool:
    return isinstance(level, (int, float)) and not isinstance(level, bool) and level > 0


def _figures(outcome: Outcome, report: Table, cells: Path) -> dict[str, list[tuple[Row, float]]]:
    if outcome.study.measure is None:
        metric = outcome.study.metric
        return {metric.name: [(row, _value(row, metric)) for row in report]}
    found: dict[str, list[tuple[Row, float]]] = {}
    for row in report:
        result = Result.load(cells / row.facts["cell"])
        for figure, value in (result.figures if result else {}).items():
            found.setdefault(figure, []).append((row, value))
    return found


# ---------------------------------------------------------------- the arms' difference


def _differences(outcome: Outcome, known: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Of the first arm, and each that differs from it in one factor only."""
    first, *rest = outcome.arms
    found = []
    for arm in rest:
        moved = [name for name, level in arm.levels.items() if first.levels[name] != level]
        if len(moved) == 1:
            key = f"{first.config.digest()}-{arm.config.digest()}-{_code_key()}"
            lines = known.get(key) or _difference(first, arm, outcome.study.measure is not None)
            found.append({"a": first.name, "b": arm.name, "key": key, "lines": lines})
    return found


def _difference(a: Arm, b: Arm, measured: bool) -> list[str]:
    if measured:  # no step is trained, and the data's vocabulary is not known
        return [f"{path}: {old} -> {new}" for path, (old, new) in difference(a.config, b.config).items()]
    return compare(a.config, b.config).lines()


def _earlier_differences(path: Path) -> dict[str, list[str]]:
    """By key, so that a study that is only judged again need not trace its programs again."""
    entries = read_json(path)["differences"] if path.is_file() else []
    return {entry["key"]: entry["lines"] for entry in entries if not entry["key"].endswith("-dirty")}


def _code_key() -> str:
    code = code_version(PACKAGE)
    return f"{code['commit'] or 'unknown'}-{'dirty' if code['dirty'] is not False else 'clean'}"


# ---------------------------------------------------------------- where it comes from


def _start(start: Mapping[str, Any]) -> dict[str, Any]:
    """A start without the names of a machine: it is to be published."""
    words = (_from_here(word) for word in start["command"][1:])
    command = ["txjax", *(word for word in words if not word.startswith(f"--workdir={os.sep}"))]
    return {"command": command, **{name: start[name] for name in ("time", "code", "versions", "devices")}}


def _from_here(word: str) -> str:
    """A path below the folder where the command was given, from there."""
    return word.replace(f"{os.getcwd()}{os.sep}", "")


def _code(cell: Path) -> dict[str, Any] | None:
    path = cell / "run.json"
    if not path.is_file():
        return None
    starts = read_json(path).get("starts") or [{}]
    return starts[-1].get("code")
