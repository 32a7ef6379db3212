"""Copying a string."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.data.draws import Draws
from txjax.data.task import Arrays
from txjax.data.transduction import Transduction


@dataclass(frozen=True)
class Copy(Transduction, kind="copy"):
    """s1 s2 ... sn = s1 s2 ... sn: the string comes again, token by token.

    How much of its input a model keeps: a state of fixed size holds n log(symbols) nats only up to a point.
    """

    def make(self, draws: Draws) -> Arrays:
        string = self.string(draws)
        return self.transduced(string, string)
