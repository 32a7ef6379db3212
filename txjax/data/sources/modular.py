"""Composition of functions modulo a prime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from txjax.data.draws import Draws
from txjax.data.task import Arrays, Task, answered, column, numbered, require_at_least
from txjax.schema import require


@dataclass(frozen=True)
class Modular(Task, kind="modular"):
    """x f1 f2 ... fk =: the target is fk(... f2(f1(x))) modulo p, where each f adds one of 0 .. p - 1 or multiplies by
    one of 1 .. p - 1. The order of the functions counts, and no step can be skipped.

    modulus: p, a prime, so that every function is one to one and every result as likely as any other.
    steps: k. answer: the result, or the results of all steps one after another, a scratchpad.
    """

    modulus: int = 7
    steps: int = 3
    answer: Literal["result", "scratchpad"] = "result"

    def check(self) -> None:
        super().check()
        require_at_least(self, 1, "steps")
        p = self.modulus
        require(p > 1 and all(p % d for d in range(2, p)), f"modulus must be a prime, such as 7, got {p}")

    @property
    def names(self) -> tuple[str, ...]:
        factors = (f"*{factor}" for factor in range(1, self.modulus))
        return ("=", *numbered("", self.modulus), *numbered("+", self.modulus), *factors)

    @property
    def context(self) -> int:
        return 1 + self.steps + (self.steps if self.answer == "scratchpad" else 1)

    @property
    def answers(self) -> int:
        return self.modulus

    def make(self, draws: Draws) -> Arrays:
        p = self.modulus
        value = draws.below(p, 1)
        functions = draws.below(2 * p - 1, self.steps)  # the addition of f, or of f >= p the product with f - p + 1
        question = np.concatenate([1 + value, 1 + p + functions, column(0, len(value))], 1)
        results = []
        for function in functions.T[:, :, None]:
            value = np.where(function < p, value + function, value * (function - p + 1)) % p
            results.append(1 + value)
        answer = np.concatenate(results, 1) if self.answer == "scratchpad" else results[-1]
        return answered(question, answer)
