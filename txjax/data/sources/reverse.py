"""Reversing a string."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.data.draws import Draws
from txjax.data.task import Arrays
from txjax.data.transduction import Transduction


@dataclass(frozen=True)
class Reverse(Transduction, kind="reverse"):
    """s1 s2 ... sn = sn ... s2 s1: the string comes backwards, so that the last symbol read is the first one asked."""

    def make(self, draws: Draws) -> Arrays:
        string = self.string(draws)
        return self.transduced(string, string[:, ::-1])
