"""Sorting a string."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays
from txjax.data.transduction import Transduction


@dataclass(frozen=True)
class Sort(Transduction, kind="sort"):
    """s1 s2 ... sn = its symbols in rising order, as often as they occur: how often, not where, is what counts."""

    def make(self, draws: Draws) -> Arrays:
        string = self.string(draws)
        return self.transduced(string, np.sort(string, 1))
