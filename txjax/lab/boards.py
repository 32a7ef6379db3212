"""TensorBoard for a study: beside the cells, a run for each arm and one for each paired difference, with their bands.

A study's folder shows in stock TensorBoard as `cells/ID/tb`, a run a cell with its hyperparameters, `boards/arm NAME`,
the mean over seeds, and `boards/difference NAME`, what a prediction contrasts. The Custom Scalars tab draws them with
their intervals as margin charts. Of more than 40 runs TensorBoard selects none at first: `--logdir=STUDY/boards` shows
these alone.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txjax.lab.curves import Band, Histories, arm_band, prediction_bands
from txjax.lab.table import arm_key, arm_name
from txjax.store.files import StoreError, reason

if TYPE_CHECKING:
    from txjax.lab.ablate import Outcome

FOLDER = "boards"
FIGURES = ("train/loss", "val/loss", "val/accuracy")  # of the arms, besides the metrics' own
Runs = dict[str, dict[str, Band]]  # by run and tag


def write(outcome: Outcome) -> None:
    """boards/ anew; nothing where no cell trained."""
    histories = Histories.read(outcome.table, outcome.folder / "cells")
    arms, differences = arm_runs(outcome, histories), difference_runs(outcome, histories)
    folder, new = outcome.folder / FOLDER, outcome.folder / f".{FOLDER}.tmp"
    try:
        for old in (new, folder):
            shutil.rmtree(old, ignore_errors=True)
        layout = _layout(arms, differences)
        for name, bands in (arms | differences).items():
            _write_run(new / name, bands, layout)
            layout = None  # TensorBoard joins the layouts of all runs: once is enough
        if new.is_dir():
            new.rename(folder)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {reason(error)}") from error


def arm_runs(outcome: Outcome, histories: Histories) -> Runs:
    wanted = dict.fromkeys([*FIGURES, *(metric.figure for metric in outcome.study.metrics), *histories.probed()])
    found: Runs = {}
    for arm in histories.table.arms:
        bands = {f"arms/{figure}": arm_band(histories, arm_key(arm), figure) for figure in wanted}
        found[f"arm {_file_name(arm_name(arm))}"] = {tag: band for tag, band in bands.items() if band}
    return {name: bands for name, bands in found.items() if bands}


def difference_runs(outcome: Outcome, histories: Histories) -> Runs:
    found: Runs = {}
    for prediction, _, band in prediction_bands(histories, outcome.study, outcome.verdicts):
        name = _file_name(prediction.name)
        found[f"difference {name}"] = {f"difference/{name}": band}
    return found


def _file_name(name: str) -> str:
    """A name that is a folder's everywhere, too."""
    return re.sub(r"[^\w.=+-]+", "-", name).strip("-.") or "unnamed"


def _layout(arms: Runs, differences: Runs) -> Any:
    """What the Custom Scalars tab shows: a chart a figure, and a chart a prediction."""
    from tensorboardX.summary import custom_scalars

    def charts(runs: Iterable[Mapping[str, Band]]) -> dict[str, list[Any]]:
        tags = dict.fromkeys(tag for bands in runs for tag in bands)
        return {tag.partition("/")[2]: ["Margin", [tag, f"{tag}/low", f"{tag}/high"]] for tag in tags}

    titled = {"Paired differences": charts(differences.values()), "Arms": charts(arms.values())}
    return custom_scalars({title: shown for title, shown in titled.items() if shown})


def _write_run(folder: Path, bands: Mapping[str, Band], layout: Any) -> None:
    from tensorboardX.proto.event_pb2 import Event  # type: ignore[attr-defined]  (made at its import)
    from tensorboardX.record_writer import RecordWriter

    folder.mkdir(parents=True)
    now = time.time()
    records = RecordWriter(str(folder / f"events.out.tfevents.{int(now):010d}.000000"))
    try:
        records.write(Event(wall_time=now, step=0, file_version="brain.Event:2").SerializeToString())
        if layout is not None:
            records.write(Event(wall_time=now, step=0, summary=layout).SerializeToString())
        for step, values in _rows(bands).items():
            summary = {"value": [{"tag": tag, "simple_value": value} for tag, value in values.items()]}
            records.write(Event(wall_time=now, step=step, summary=summary).SerializeToString())
    finally:
        records.close()


def _rows(bands: Mapping[str, Band]) -> dict[int, dict[str, float]]:
    """{step: {tag: value}}, in order."""
    rows: dict[int, dict[str, float]] = {}
    for tag, band in bands.items():
        for step, mean, low, high in zip(band.steps, band.mean, band.low, band.high, strict=True):
            rows.setdefault(step, {}).update({tag: mean, f"{tag}/low": low, f"{tag}/high": high})
    return dict(sorted(rows.items()))
