"""The lab: from a question in one file to an effect, an interval and a verdict (docs/statistics.md)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax.lab.contrasts import at, difference, interaction, log_ratio, slope
    from txjax.lab.readouts import Metric, area_under, final, steps_to
    from txjax.lab.study import Matched, Prediction, Study
    from txjax.lab.table import Row, Table
    from txjax.lab.verdicts import Terms, Verdict, verdict

_HOMES = {
    "contrasts": ("at", "difference", "interaction", "log_ratio", "slope"),
    "readouts": ("Metric", "area_under", "final", "steps_to"),
    "study": ("Matched", "Prediction", "Study"),
    "table": ("Row", "Table"),
    "verdicts": ("Terms", "Verdict", "verdict"),
}


def __getattr__(name: str) -> Any:
    """Imported when it is used: the schema that a study stands on imports jax, which takes seconds."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"txjax.lab.{home}"), name)
    raise AttributeError(f"module 'txjax.lab' has no attribute {name!r}")


__all__ = [
    "Matched",
    "Metric",
    "Prediction",
    "Row",
    "Study",
    "Table",
    "Terms",
    "Verdict",
    "area_under",
    "at",
    "difference",
    "final",
    "interaction",
    "log_ratio",
    "slope",
    "steps_to",
    "verdict",
]
