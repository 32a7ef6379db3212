"""Pictures of a run."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from txjax.store import Run

TRAIN, VALIDATION = "#4878cf", "#d65f5f"


def draw_run(run: Run, path: Path) -> Path:
    """The losses against the steps and, below, the first and the last sample text, as a PNG.

    Raises ValueError where the run has no steps yet.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = run.rows()
    if not _series(rows, "train/loss")[0]:
        raise ValueError(f"{run.folder} has no logged steps to draw")
    samples = sorted(run.samples.glob("*.txt"), key=lambda file: int(file.stem))
    figure = Figure(figsize=(8, 5.2 if samples else 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2 if samples else 1, 2)
    _losses(figure.add_subplot(grid[0, :]), rows)
    if samples:
        _sample(figure.add_subplot(grid[1, 0]), samples[0])
        _sample(figure.add_subplot(grid[1, 1]), samples[-1])
    figure.savefig(path, dpi=120)
    return path


def _losses(axes: Any, rows: list[dict[str, Any]]) -> None:
    axes.plot(*_series(rows, "train/loss"), color=TRAIN, linewidth=1.2, label="train/loss, mean of a logging interval")
    validation = _series(rows, "val/loss")
    axes.plot(*validation, color=VALIDATION, marker="o", markersize=4, label="val/loss, the whole validation set")
    for step, loss in zip(*validation, strict=True):
        axes.annotate(f"{loss:.2f}", (step, loss), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel("nats a token")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _sample(axes: Any, file: Path, width: int = 58, height: int = 14) -> None:
    text = "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in file.read_text(encoding="utf-8"))
    lines = [piece for line in text.splitlines() for piece in textwrap.wrap(line, width) or [""]]
    axes.set_title(f"what it writes at step {file.stem}", loc="left", fontsize=9)
    axes.text(0, 1, "\n".join(lines[:height]), family="monospace", fontsize=7, va="top", parse_math=False)
    axes.axis("off")


def _series(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
    return [step for step, _ in points], [value for _, value in points]
