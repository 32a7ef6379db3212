"""Identities: claims that are mathematics. Each is computed by txjax's own functions and held to a tolerance.

A check is a function that gives the largest deviation, in a file of a folder; `collect` finds those of a folder:

    @identity("C03", "each row of the weights sums to 1", 1e-6, "float32 keeps 6e-8 of a number")
    def rows_sum_to_one() -> float: ...

    @wrong("C03", "each column does, too", 0.1, "no number near 1")
    def columns_sum_to_one() -> float: ...
"""

from __future__ import annotations

import importlib.util
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from txjax.schema import ConfigError


@dataclass(frozen=True)
class Identity:
    """claim: its number in docs/claims.toml. what: is said. deviation: computes how far from true it is, at most.
    tolerance: of the deviation, and why so much. expected: fails is what a wrong form must do, by more than tolerance.
    """

    claim: str
    what: str
    tolerance: float
    because: str
    expected: Literal["holds", "fails"]
    deviation: Callable[[], float]


@dataclass(frozen=True)
class Finding:
    identity: Identity
    deviation: float
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether it holds, or fails, as it must; a deviation that is not a number is neither."""
        held = self.deviation <= self.identity.tolerance
        return not math.isnan(self.deviation) and held == (self.identity.expected == "holds")


Check = Callable[[], float]


def identity(claim: str, what: str, tolerance: float = 0.0, because: str = "exact") -> Callable[[Check], Identity]:
    """Makes an Identity that holds of a function that gives the largest deviation."""
    return lambda check: Identity(claim, what, tolerance, because, "holds", check)


def wrong(claim: str, what: str, tolerance: float, because: str) -> Callable[[Check], Identity]:
    """Makes an Identity of a form that is said and is not true: its deviation must exceed the tolerance."""
    return lambda check: Identity(claim, what, tolerance, because, "fails", check)


def collect(folder: Path) -> list[Identity]:
    """Every Identity in the files of a folder, by claim; ConfigError where there is none."""
    sys.path.insert(0, str(folder.resolve()))  # files may import their neighbours
    try:
        modules = [_load(file) for file in sorted(folder.glob("*.py"))]
    finally:
        sys.path.pop(0)
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Identity)]
    if not found:
        raise ConfigError(f"{folder} has no file with an @identity")
    return sorted(found, key=lambda identity: identity.claim)  # stable: in the order of the file within a claim


def _load(file: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"identities_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def examine(identities: Iterable[Identity]) -> list[Finding]:
    findings = []
    for one in identities:
        start = time.perf_counter()
        deviation = float(one.deviation())
        findings.append(Finding(one, deviation, time.perf_counter() - start))
    return findings


def table(findings: Sequence[Finding]) -> list[str]:
    """Lines of Markdown: claim, what is said, the deviation, its tolerance with the reason, what came out."""
    lines = ["| claim | what is said | largest deviation | tolerance | |", "|---|---|---|---|---|"]
    for finding in findings:
        one = finding.identity
        bound = f"{'at most' if one.expected == 'holds' else 'fails, by more than'} {one.tolerance:g} ({one.because})"
        word = one.expected if finding.passed else "NOT AS EXPECTED"
        lines.append(f"| {one.claim} | {one.what} | {finding.deviation:.3g} | {bound} | {word} |")
    return lines


def to_json(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [
        {
            "claim": finding.identity.claim,
            "what": finding.identity.what,
            "deviation": finding.deviation,
            "tolerance": finding.identity.tolerance,
            "because": finding.identity.because,
            "expected": finding.identity.expected,
            "passed": finding.passed,
            "seconds": round(finding.seconds, 2),
        }
        for finding in findings
    ]
