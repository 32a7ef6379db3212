"""Results of a made-up study with something of everything, for the tests of reports: nothing is trained for them."""

from __future__ import annotations

import math
from typing import Any

from small_table import two_arms

from txjax.lab import Prediction, Terms, difference
from txjax.lab.readouts import final
from txjax.lab.record import Results, plain
from txjax.lab.table import Row, Table
from txjax.lab.verdicts import verdicts

# What a config may say, and no page may obey; a word of it is looked for where it has to be shown.
HOSTILE = (
    '<script>document.title="owned"</script><img src=x onerror=alert(1)> & $\\frac{a}{b}$ | `code` *b* '
    "[a](javascript:c)"
)
EFFECTS = (0.48, 0.46, 0.46, 0.55, 0.54, 0.51, 0.19, 0.52)
LONG = "with-a-name-that-has-no-place-to-break-and-is-longer-than-a-telephone-is-wide-by-far"


def results(text: str = HOSTILE) -> Results:
    """text: stands wherever a study's author may write."""
    table = _table(text)
    predictions = [
        Prediction(text, difference("post", "pre"), claim="C47"),
        Prediction("as good", difference("post", "pre"), kind="same", margin=0.05),
        Prediction(LONG, difference("pre", "post"), primary=False),
    ]
    metric = final("test/loss")
    judged = verdicts(table.where(lambda row: row.state == "finished"), predictions, metric, "cpu", Terms())
    return Results(table, tuple(judged), plain(_facts(text, predictions, table)))


def _table(text: str) -> Table:
    facts = {"cell": f"a-cell-{LONG}", "seconds": 4.5, "steps": 60, "resolution": {}, "trivial": 3.3, "error": None}
    report = list(two_arms(EFFECTS, **facts))
    lost = {**facts, "error": f"ValueError: {text}"}
    tuned = {"optim.learning_rate": 0.01}
    arm = {"model.norm_placement": "post"}
    return Table(
        (
            *report,
            Row(arm, 1000, {"test/loss": math.nan}, "diverged", "tuning", tuned, facts=facts),
            Row(arm, 1001, {"test/loss": math.nan}, "failed", "tuning", tuned, facts=lost),
        )
    )


def _facts(text: str, predictions: list[Prediction], table: Table) -> dict[str, Any]:
    steps = list(range(10, 70, 10))
    rate, report = "optim.learning_rate", table.phase("report")
    points = [{"values": {rate: v}, "score": s, "diverged": 0} for v, s in ((0.001, 3.2), (0.003, 2.8), (0.01, 3.1))]
    lost = {"values": {rate: 0.03}, "score": math.inf, "diverged": 2}
    code = {"version": "0.1", "commit": "0123456789abcdef", "dirty": False}
    return {
        "name": text,
        "question": f"Is it so? {text}",
        "tier": "cpu",
        "scope": f"6 layers, d 32, {text}",
        "metric": "test/loss",
        "chosen_by": "val/loss",
        "higher_is_better": False,
        "registration": {
            "registered": "ea833803d1",
            "time": "2026-11-30T00:09:36+00:00",
            "predictions": [
                {"name": p.name, "contrast": text, "kind": p.kind, "margin": p.margin, "least": p.least,
                 "primary": p.primary, "metric": "test/loss", "claim": p.claim}
                for p in predictions
            ],
            "budget": {"seeds": 8, "tier": "cpu"},
            "exploratory": None,
            "changes": [],
            "looks": [{"time": "2026-11-30T00:12:07+00:00", "seeds": 8}],
        },
        "arms": [
            {"name": "pre", "parameters": 80416, "flops": 1.85e10, "tokens": 30720, "seconds": 4.5, "consequences": {}},
            {"name": "post", "parameters": 80352, "flops": 1.85e10, "tokens": 30720, "seconds": None,
             "consequences": {"model.width": [32, text]}},
        ],
        "choices": [
            {"arm": "pre", "best": {rate: 0.003}, "edges": {}, "settled": True, "curve": [*points, lost]},
            {"arm": text, "best": {rate: 0.001}, "edges": {rate: -1}, "settled": False, "curve": points},
        ],
        "seeds": [
            {"metric": "test/loss", "unit": "nats", "arms": {
                arm: {row.seed: row.values["test/loss"] for row in report if row.levels["model.norm_placement"] == arm}
                for arm in ("pre", "post")
            }}
        ],
        "curves": [
            {"prediction": p.name, "figure": "train/loss", "steps": steps, "mean": [0.01 * s for s in steps],
             "low": [0.005 * s for s in steps], "high": [0.015 * s for s in steps]}
            for p in predictions
        ],
        "levels": [
            {"factor": "model.num_layers", "figure": figure, "curves": {figure: {"2": [1.0, 1.1], "4": [0.5, 0.6]}}}
            for figure in ("gradient", "theory/gradient")
        ],
        "probes": [
            {"probe": probe, "arm": arm, "theory": theory, "layers": {
                layer: {"0": 2.0, "50": 1.0 + index, "100": 0.5} for index, layer in enumerate(("0", "1"))}}
            for probe, theory in (("softmax_entropy", 2.1), ("gradient_norm", None)) for arm in ("pre", text)
        ],
        "differences": [
            {"a": "pre", "b": "post", "key": "a-b-c", "lines": [
                f"model.norm_placement: pre -> {text}", "operations: -20 mul f32[8]", "operations: -16 add f32[32]"]}
        ],
        "start": {
            "command": ["txjax", "ablate", text],
            "time": "2026-11-30T00:09:36+00:00",
            "code": code,
            "versions": {"python": "3.13.0", "jax": "0.12.0"},
            "devices": {"platform": "cpu", "kind": "cpu", "count": 1, "processes": 1},
        },
        "code": {"a-cell": code},
    }  # fmt: skip
