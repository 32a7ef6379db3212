"""Pictures of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax.store import Run


def draw_losses(run: Run, path: Path) -> Path:
    """Training and validation loss against the steps, as a PNG. Raises ValueError where a run has no steps yet."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = run.rows()
    train, validation = (_series(rows, name) for name in ("train/loss", "val/loss"))
    if not train[0]:
        raise ValueError(f"{run.folder} has no logged steps to draw")
    figure = Figure(figsize=(7, 3.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(*train, color="#4878cf", linewidth=1.2, label="train/loss, mean of each logging interval")
    axes.plot(*validation, color="#d65f5f", marker="o", markersize=4, label="val/loss, whole validation set")
    for step, loss in zip(*validation, strict=True):
        axes.annotate(f"{loss:.2f}", (step, loss), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
    axes.set_xlabel("step")
    axes.set_ylabel("nats a token")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    return path


def _series(rows: list[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    points = [(row["step"], row[name]) for row in rows if row.get(name) is not None]
    return [step for step, _ in points], [value for _, value in points]
