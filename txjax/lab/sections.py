"""What a study's report says, in the order in which a reader asks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from txjax.lab import pictures
from txjax.lab.record import Results
from txjax.lab.table import Row, arm_name
from txjax.lab.verdicts import Verdict
from txjax.store.provenance import PACKAGE, code_version
from txjax.view import document as doc
from txjax.view.arms import compact

TONES: dict[str, doc.Tone] = {"reproduced": "good", "reversed": "bad", "inconclusive": "open"}


def document(results: Results, cells: Path) -> doc.Document:
    """cells: the folder of the study's runs, to which rows are linked where it is there."""
    facts = results.facts
    sections = [
        doc.Section("Effects", effects(results)),
        doc.Section("Seed by seed, step by step", [doc.Figures(pictures.numbers(results))]),
        doc.Section("Against the levels of a factor", [doc.Figures(pictures.levels(results))]),
        doc.Section("Probes against theory", probes(facts)),
        doc.Section("Predictions, as registered", predictions(facts)),
        doc.Section("Tuning", tuning(results)),
        doc.Section("Costs", costs(facts)),
        doc.Section("What differs between the arms", differences(facts)),
        doc.Section("Failures", failures(results)),
        doc.Section("Where this comes from", sources(results)),
        doc.Section("All cells", all_cells(results, cells)),
    ]
    return doc.Document(
        title=facts["question"],
        kind=f"study · {facts['name']} · tier {facts['tier']}",
        opening=opening(results),
        sections=[section for section in sections if _says_something(section)],
        foot=f"txjax, from the results beside this page · registered as {facts['registration']['registered']}",
    )


def _says_something(section: doc.Section) -> bool:
    return any(not isinstance(block, doc.Figures) or block.figures for block in section.blocks)


def badge(verdict: Verdict) -> doc.Badge:
    return doc.Badge(verdict.label, TONES.get(verdict.word, "quiet"))


def opening(results: Results) -> list[doc.Block]:
    blocks: list[doc.Block] = []
    for verdict in results.verdicts:
        said = verdict.line("").removeprefix(f"verdict: {verdict.label}").lstrip(" ·")
        blocks.append(doc.Paragraph([badge(verdict), " ", said], "lead"))
    blocks.append(doc.Paragraph(results.facts["scope"], "note"))
    if why := results.facts["registration"]["exploratory"]:
        said = ["This study is ", doc.Strong("exploratory"), f": {why}. It gives effects, and no verdicts."]
        blocks.append(doc.Paragraph(said, "warning"))
    return blocks


def effects(results: Results) -> list[doc.Block]:
    header = ["prediction", "claim", "verdict", "effect", "interval", "margin", "p", "level", "n", "s_d", "r"]
    rows = [
        [
            verdict.prediction,
            verdict.claim or "",
            badge(verdict),
            f"{number(verdict.mean, '+')} {verdict.unit}".strip(),
            f"[{number(verdict.low, '+')}, {number(verdict.high, '+')}]",
            number(verdict.margin),
            number(verdict.p),
            f"{verdict.alpha:.3g}",
            str(verdict.n),
            number(verdict.s_d),
            number(verdict.correlation),
        ]
        for verdict in results.verdicts
    ]
    about = (
        "Intervals at one minus the level, which is 5 % after Holm over the family of primary predictions. p: the "
        "larger of the exact sign-flip test's and Student's. s_d: over seeds. r: the correlation of the two sides over "
        "seeds; pairing pays where it is positive."
    )
    return [
        *pictures.forest(results),
        doc.Table(header, rows, numbers=range(3, len(header))),
        doc.Items([[doc.Strong(v.prediction), f": {_sentence(v)}"] for v in results.verdicts]),
        doc.Paragraph(about, "note"),
    ]


def _sentence(verdict: Verdict) -> str:
    parts = [verdict.reason, f"read from {verdict.metric}"]
    if verdict.fell_back:
        parts.append("since too many runs never crossed the threshold")
    if any(verdict.divergences.values()):
        counts = ", ".join(f"{count} of {arm}" for arm, count in verdict.divergences.items() if count)
        parts.append(f"diverged runs: {counts} (paired p {number(verdict.mcnemar)})")
    return "; ".join(parts) + "."


def predictions(facts: Any) -> list[doc.Block]:
    registration = facts["registration"]
    budget = registration["budget"]
    rows = [
        [p["name"], p["claim"] or "", _kind(p), _margin(p), p["metric"], doc.Code(p["contrast"])]
        for p in registration["predictions"]
    ]
    said = ["Registered as ", doc.Code(registration["registered"]), f" on {_time(registration['time'])}, before "
            f"the first run, over {budget['seeds']} seeds."]  # fmt: skip
    looks = ", ".join(f"{look['seeds']} seeds on {_time(look['time'])}" for look in registration["looks"])
    blocks: list[doc.Block] = [
        doc.Paragraph(said),
        doc.Table(["prediction", "claim", "kind", "margin", "metric", "contrast"], rows),
        doc.Paragraph(f"Looked at: {looks}." if looks else "Not looked at before.", "note"),
    ]
    for change in registration["changes"]:
        blocks.append(doc.Paragraph(f"Changed on {_time(change['time'])}: {change['registered']}.", "note"))
    return blocks


def _kind(prediction: Any) -> str:
    kind = {"direction": "above 0", "same": "within the margin", "at_least": f"above {prediction['least']}"}
    return kind[prediction["kind"]] + ("" if prediction["primary"] else ", secondary")


def _margin(prediction: Any) -> str:
    return "the usual" if prediction["margin"] is None else f"{prediction['margin']:g}"


def tuning(results: Results) -> list[doc.Block]:
    choices = results.facts["choices"]
    if not choices:
        return []
    paths = list(choices[0]["best"])
    rows = [[c["arm"], *(f"{c['best'][path]:g}" for path in paths), number(_best_score(c))] for c in choices]
    open_ends = [f"{c['arm']}: {why}" for c in choices if (why := _unsettled(c))]
    about = (
        f"All arms got the same values, on seeds that are not reported; the best mean of {results.facts['chosen_by']} "
        "was chosen, and a grid whose end was best was made wider for all."
    )
    return [
        doc.Paragraph(about),
        doc.Figures(pictures.rates(results)),
        doc.Table(["arm", *paths, str(results.facts["chosen_by"])], rows, numbers=range(1, len(paths) + 2)),
        *([doc.Items(open_ends)] if open_ends else []),
    ]


def _best_score(choice: Any) -> float | None:
    return next(point["score"] for point in choice["curve"] if point["values"] == choice["best"])


def _unsettled(choice: Any) -> str:
    if choice["edges"]:
        return f"the best {', '.join(choice['edges'])} lies at the end of what was tried, so that no verdict is given"
    return "" if choice["settled"] else "some of the grid is missing"


def probes(facts: Any) -> list[doc.Block]:
    rows = []
    for entry in facts.get("probes", []):
        for layer, curve in entry["layers"].items():
            start, *_, end = [curve[step] for step in sorted(curve, key=int)] * 2  # one step is both
            rows.append([entry["probe"], entry["arm"], layer, number(start), number(end), number(entry["theory"])])
    if not rows:
        return []
    header = ["probe", "arm", "layer", "at the start", "at the end", "theory"]
    about = "On one batch of validation, means over seeds. Theory is of even weights, or of scores of unit variance."
    table = doc.Table(header, rows, numbers=range(2, 6))
    return [doc.Figures(pictures.probes(facts)), doc.Paragraph(about, "note"), doc.Fold("Layer by layer", [table])]


def costs(facts: Any) -> list[doc.Block]:
    kinds = ["parameters", "training FLOPs", "tokens", "seconds"]
    rows = [[arm["name"], *("–" if a is None else compact(a) for a in _amounts(arm))] for arm in facts["arms"]]
    changed = [
        f"{arm['name']}: {path} {old} → {new}"
        for arm in facts["arms"]
        for path, (old, new) in arm["consequences"].items()
    ]
    blocks: list[doc.Block] = [
        doc.Figures(pictures.costs(facts)),
        doc.Table(["arm of a run", *kinds], rows, range(1, 5)),
    ]
    if changed:
        blocks += [doc.Paragraph("What matching changed, besides what the arms are about:"), doc.Items(changed)]
    return blocks


def _amounts(arm: Any) -> list[float | None]:
    return [arm["parameters"] or None, arm["flops"] or None, arm["tokens"] or None, arm["seconds"]]


def differences(facts: Any) -> list[doc.Block]:
    if not facts["differences"]:
        return []
    lead = "Found by comparing configs, initial parameters and the traced programs of a train step."
    blocks: list[doc.Block] = [doc.Paragraph(lead, "note")]
    for pair in facts["differences"]:
        operations = [line for line in pair["lines"] if line.startswith("operations:")]
        rest = [line for line in pair["lines"] if line not in operations]
        blocks += [doc.Paragraph([doc.Strong(f"{pair['a']} → {pair['b']}")]), doc.Items(rest)]
        if len(operations) > 1:
            blocks.append(doc.Fold("Operations that run more or less often", [doc.Items(operations)]))
        elif operations:
            blocks.append(doc.Items(operations))
    return blocks


def failures(results: Results) -> list[doc.Block]:
    states = Counter(row.state for row in results.table)
    said = ", ".join(f"{count} {state}" for state, count in states.items())
    lost = [row for row in results.table if row.state != "finished"]
    blocks: list[doc.Block] = [doc.Paragraph(f"Of {len(results.table)} cells: {said}.")]
    rows = [
        [_named(row), doc.Badge(row.state, "bad" if row.state == "failed" else "open"), _error(row)] for row in lost
    ]
    return [*blocks, doc.Table(["cell", "state", "why"], rows)] if rows else blocks


def _named(row: Row) -> str:
    tuned = [f"{path.rpartition('.')[2]} {value:g}" for path, value in row.tuned.items()]
    return " · ".join([arm_name(row.levels), *tuned, f"seed {row.seed}", row.phase])


def _error(row: Row) -> doc.Piece:
    return doc.Code(str(row.facts["error"])) if row.facts.get("error") else f"after {row.facts.get('steps') or 0} steps"


def sources(results: Results) -> list[doc.Block]:
    start = results.facts["start"]
    device = start["devices"]
    versions = ", ".join(f"{name} {version}" for name, version in start["versions"].items() if version)
    stale, tone = staleness(results.facts["code"] or {"": start["code"]})
    return [
        doc.Listing(" ".join(start["command"])),
        doc.Paragraph(stale, tone),
        doc.Items(
            [
                f"Versions: {versions}.",
                f"Hardware: {device['count']} × {device['kind']} ({device['platform']}), {device['processes']} process"
                + ("es." if device["processes"] != 1 else "."),
                f"Last start: {_time(start['time'])}.",
            ]
        ),
    ]


def staleness(codes: Any) -> tuple[str, Any]:
    """Which code the cells ran, and whether it is the one that draws this."""
    counts = Counter((code["commit"], code["dirty"]) for code in codes.values())
    now = code_version(PACKAGE)
    said = []
    for (commit, dirty), count in counts.items():
        where = f"at commit {commit[:10]}" if commit else "from a package without a commit"
        said.append(
            f"{count if count < len(codes) else 'all'} cells ran {where}{', with changes to it' if dirty else ''}"
        )
    text = "; ".join(said) + "."
    text = text[:1].upper() + text[1:]
    if any(dirty for _, dirty in counts):
        return f"{text} Where a commit was changed, the exact code is not on record.", "warning"
    if now["commit"] and any(commit not in (None, now["commit"]) for commit, _ in counts):
        return f"{text} The code has moved on since, to {now['commit'][:10]}.", "note"
    return text, "plain"


def all_cells(results: Results, cells: Path) -> list[doc.Block]:
    metric = results.facts["metric"]
    tuned = list(dict.fromkeys(path for row in results.table for path in row.tuned))
    header = ["arm", *(path.rpartition(".")[2] for path in tuned), "seed", "phase", "state", metric, "seconds", "run"]
    rows: list[Sequence[doc.Text]] = [
        [
            arm_name(row.levels),
            *(f"{row.tuned[path]:g}" if path in row.tuned else "" for path in tuned),
            str(row.seed),
            row.phase,
            row.state,
            number(row.values.get(metric), digits=5),
            number(row.facts.get("seconds")),
            _run(str(row.facts.get("cell", "")), cells),
        ]
        for row in results.table
    ]
    count = len(tuned)
    numbers = [*range(1, count + 2), count + 4, count + 5]
    return [doc.Fold(f"{len(rows)} cells, each a run", [doc.Table(header, rows, numbers)])]


def _run(cell: str, cells: Path) -> doc.Piece:
    return doc.Link(cell, f"cells/{quote(cell)}/") if cell and (cells / cell).is_dir() else cell


def number(value: float | None, sign: str = "", digits: int = 3) -> str:
    """To three digits, as in a verdict's line; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:{sign}.{digits}g}"


def _time(text: str) -> str:
    return text[:16].replace("T", " ")
