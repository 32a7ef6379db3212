"""Verdicts: predictions judged by a table, by rules that were fixed before it was filled (docs/statistics.md)."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from txjax.lab import statistics
from txjax.lab.evidence import Evidence, gather, scale_of
from txjax.lab.readouts import Metric
from txjax.lab.rules import Case, Cause, Finding, Size, Word, decide
from txjax.lab.study import FEWEST, Prediction, Tier
from txjax.lab.table import ArmKey, Table
from txjax.schema import ConfigError


@dataclass(frozen=True)
class Terms:
    """What a verdict must know that no table tells.

    trivial: the loss of a predictor that has learned nothing, which a diverged run counts as; none: what the rows know
    of it. seeds: that were planned; none: those of the table. looks: at the data that were planned, 1 or 2; each has
    half of alpha where there are 2. unsettled: arms, by arm_key, whose tuning found no optimum.
    untestable: by the prediction's name, why it cannot be judged here. exploratory: why none can.
    """

    trivial: float | None = None
    seeds: Sequence[int] = ()
    looks: int = 1
    unsettled: frozenset[ArmKey] = frozenset()
    untestable: Mapping[str, str] = field(default_factory=dict)
    exploratory: str = ""

    @property
    def alpha(self) -> float:
        if self.looks not in (1, 2):
            raise ConfigError(f"looks must be 1 or 2, got {self.looks}: one extension may be planned")
        return statistics.ALPHA / self.looks


@dataclass(frozen=True)
class Verdict:
    """word, with size or cause: "reproduced (material)", "inconclusive (tuning)". reason: one sentence.
    mean, low, high: of the contrast, the interval at 1 - alpha; alpha: its level after Holm over the `family` of
    primary predictions. p: the larger of the exact and Student's, for what the prediction's kind tests. s_d: over
    seeds, bounded below by `resolution`. margin: in `unit`. numbers: one for each of `seeds`; missing: seeds without.
    metric: what was read; fell_back: in place of steps to a threshold that too many runs never crossed.
    divergences: runs of each arm; mcnemar: their paired p. correlation: of the two sides over seeds.
    needed: seeds for a verdict with 80 %, where there is none. NaN or None where a figure does not exist.
    """

    prediction: str
    claim: str | None
    word: Word
    size: Size
    cause: Cause
    reason: str
    mean: float
    low: float
    high: float
    alpha: float
    family: int
    p: float
    n: int
    s_d: float
    resolution: float
    margin: float | None
    unit: str
    seeds: tuple[int, ...]
    numbers: tuple[float, ...]
    missing: tuple[int, ...]
    primary: bool
    metric: str
    fell_back: bool
    divergences: Mapping[str, int]
    mcnemar: float
    correlation: float | None
    needed: int | None

    @property
    def label(self) -> str:
        note = self.size or self.cause
        return f"{self.word} ({note})" if note else self.word

    def line(self, scope: str) -> str:
        """`verdict: reproduced (material) C47 · NAME +0.54 nats [+0.45, +0.63] · n 8, Holm over 4 · SCOPE`."""
        family = f", Holm over {self.family}" if self.primary and self.family > 1 else ""
        interval = f" [{self.low:+.3g}, {self.high:+.3g}]" if self.n > 1 else ""
        effect = f"{self.prediction} {self.mean:+.3g} {self.unit}".rstrip() + interval
        why = self.reason if self.word in ("inconclusive", "not testable", "estimate") else ""
        parts = [f"{self.label} {self.claim or ''}".rstrip(), effect, f"n {self.n}{family}", scope, why]
        return "verdict: " + " · ".join(part for part in parts if part)

    def to_json(self) -> str:
        data = dataclasses.asdict(self)
        return json.dumps({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()})

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        data = json.loads(text)
        gaps = {k: math.nan for k in ("mean", "low", "high", "p", "s_d", "mcnemar") if data[k] is None}
        return cls(**data | gaps | {k: tuple(data[k]) for k in ("seeds", "numbers", "missing")})


def verdict(
    table: Table, prediction: Prediction, metric: Metric | None = None, tier: Tier = "cpu", terms: Terms | None = None
) -> Verdict:
    """One prediction judged alone, as a family of one. metric: the prediction's, or the only one that the table has."""
    return verdicts(table, [prediction], metric or prediction.metric or _only_metric(table), tier, terms)[0]


def verdicts(
    table: Table, predictions: Sequence[Prediction], metric: Metric, tier: Tier = "cpu", terms: Terms | None = None
) -> list[Verdict]:
    """All predictions of a study: of the primary ones, errors are controlled together."""
    terms = terms or Terms()
    cases = [_case(table, prediction, metric, tier, terms) for prediction in predictions]
    primary = [case for case in cases if case.prediction.primary]
    # one that is not judged stays in the family: it was in it when the study was planned
    levels = iter(statistics.holm([1.0 if case.barred else case.p for case in primary], terms.alpha))
    return [_judged(case, next(levels) if case.prediction.primary else terms.alpha, len(primary)) for case in cases]


def _case(table: Table, prediction: Prediction, metric: Metric, tier: Tier, terms: Terms) -> Case:
    evidence = gather(table, prediction.contrast, prediction.metric or metric, terms.trivial, terms.seeds)
    unit, margin = unit_and_margin(prediction, evidence, tier)
    return Case(prediction, evidence, unit, margin, _barred(prediction, evidence, terms))


def unit_and_margin(prediction: Prediction, evidence: Evidence, tier: Tier) -> tuple[str, float | None]:
    """The prediction's own margin or the usual one; ConfigError where its kind needs one and there is none."""
    unit, usual = scale_of(prediction.contrast, evidence.metric, tier)
    margin = usual if prediction.margin is None or evidence.fell_back else prediction.margin  # its unit is another then
    if prediction.kind == "same" and margin is None:
        raise ConfigError(
            f"prediction {prediction.name!r}: kind same needs a margin, and {unit or 'it'} has no usual one"
        )
    return unit, margin


def _barred(prediction: Prediction, evidence: Evidence, terms: Terms) -> Finding | None:
    """The first reason why there is no verdict by numbers."""
    n, missing, numbers = len(evidence.numbers), len(evidence.missing), evidence.numbers
    if reason := terms.untestable.get(prediction.name):
        return Finding("not testable", reason)
    if n and not missing and not any(numbers) and not evidence.bounded:
        return Finding("identical", "the contrast is exactly 0 in every seed")
    if terms.exploratory:
        return Finding("estimate", terms.exploratory)
    if not prediction.primary:
        return Finding("estimate", "a secondary prediction")
    if n + missing < FEWEST:
        return Finding("estimate", f"{n + missing} seeds, a verdict needs {FEWEST}")
    if missing:
        seeds = ", ".join(map(str, evidence.missing))
        return Finding("inconclusive", f"cells failed or never ran: seeds {seeds} cannot be used", "missing cells")
    if evidence.arms & terms.unsettled:
        return Finding("inconclusive", "the best value of a tuned setting lies at the end of its grid", "tuning")
    if not any(numbers):
        return Finding("inconclusive", "failed runs are all there is to compare", "failures")
    if evidence.fell_back and prediction.kind == "at_least":
        return Finding("inconclusive", "too many runs never crossed the threshold to say by how much", "censored")
    return None


def _judged(case: Case, alpha: float, family: int) -> Verdict:
    evidence, prediction, finding = case.evidence, case.prediction, decide(case, alpha)
    low, high = case.interval(alpha)
    return Verdict(
        prediction=prediction.name,
        claim=prediction.claim,
        word=finding.word,
        size=finding.size,
        cause=finding.cause,
        reason=finding.reason,
        mean=case.mean,
        low=low,
        high=high,
        alpha=alpha,
        family=family,
        p=case.p,
        n=len(evidence.numbers),
        s_d=case.s_d,
        resolution=evidence.floor,
        margin=case.margin,
        unit=case.unit,
        seeds=evidence.seeds,
        numbers=evidence.numbers,
        missing=evidence.missing,
        primary=prediction.primary,
        metric=evidence.metric.name,
        fell_back=evidence.fell_back,
        divergences=evidence.divergences,
        mcnemar=evidence.mcnemar,
        correlation=evidence.correlation,
        needed=finding.needed,
    )


def _only_metric(table: Table) -> Metric:
    names = sorted({name for row in table for name in row.values})
    if len(names) != 1 or " " in names[0]:
        raise ConfigError(f"say which metric the verdict is about, with metric=: the table has {', '.join(names)}")
    return Metric(names[0])
