"""The index of a folder of studies: every verdict in a line, with the share of false findings to expect among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from txjax.lab.record import RECORD, Results
from txjax.lab.report import MARKDOWN, PAGE, RESULTS, write_markdown
from txjax.lab.sections import badge, number
from txjax.lab.statistics import benjamini_hochberg
from txjax.lab.verdicts import Verdict
from txjax.schema import ConfigError
from txjax.store.files import write_text
from txjax.view import document as doc
from txjax.view.effects import forest_plot
from txjax.view.page import page

PLACES = (RESULTS, f"*/{RESULTS}", f"*/{RESULTS}/*", "*")  # of a study's results, from the folder of studies
UNJUDGED = ("estimate", "not testable")


@dataclass(frozen=True)
class Entry:
    """A study. report: its folder, from the index."""

    report: Path
    results: Results

    @property
    def name(self) -> str:
        return f"{self.results.facts['name']} · {self.results.facts['tier']}"


def write(folder: Path) -> Path:
    """index.md and index.html of a folder of studies; the page."""
    entries = find(folder)
    if not entries:
        raise ConfigError(
            f"{folder} has no results of studies: txjax ablate writes them, with --publish in experiments/"
        )
    write_markdown(document(folder, entries, MARKDOWN), folder, "index.md")
    write_text(folder / "index.html", page(document(folder, entries, PAGE)))
    return folder / "index.html"


def find(folder: Path) -> list[Entry]:
    """Studies in the order of their names."""
    homes = {path.parent for place in PLACES for path in folder.glob(f"{place}/{RECORD}")}
    entries = [
        Entry((home.parent if home.name == RESULTS else home).relative_to(folder), Results.load(home)) for home in homes
    ]
    return sorted(entries, key=lambda entry: (entry.name, entry.report))


def document(folder: Path, entries: Sequence[Entry], target: str) -> doc.Document:
    """target: the file of a study's report to which its name leads, where it is there."""
    verdicts = [(entry, verdict) for entry in entries for verdict in entry.results.verdicts]
    q = false_findings([verdict for _, verdict in verdicts])
    header = ["study", "prediction", "claim", "verdict", "effect", "interval", "p", "q", "n"]
    rows = [
        [
            _link(folder, entry, target),
            verdict.prediction,
            verdict.claim or "",
            badge(verdict),
            f"{number(verdict.mean, '+')} {verdict.unit}".strip(),
            f"[{number(verdict.low, '+')}, {number(verdict.high, '+')}]",
            number(verdict.p),
            number(q[index]),
            str(verdict.n),
        ]
        for index, (entry, verdict) in enumerate(verdicts)
    ]
    drawn = [replace(verdict, prediction=f"{entry.name}: {verdict.prediction}") for entry, verdict in verdicts]
    about = (
        "q, after Benjamini and Hochberg over all judged primary predictions on this page: the share of false findings "
        "to expect among those with a p as small. Verdicts themselves are adjusted within each study (Holm)."
    )
    sections = [doc.Section("Verdicts", [doc.Table(header, rows, range(4, 9)), doc.Paragraph(about, "note")])]
    if drawn:
        shown = "Mean and interval of each contrast; the band is the margin. Each unit has axes of its own."
        sections.append(doc.Section("Effects", [doc.Figure("studies", forest_plot(drawn, "studies"), shown)]))
    asked = [[_link(folder, entry, target), f": {entry.results.facts['question']}"] for entry in entries]
    sections.append(doc.Section("Questions", [doc.Items(asked)]))
    return doc.Document("Studies", f"{len(entries)} studies, {len(verdicts)} predictions", [], sections)


def false_findings(verdicts: Sequence[Verdict]) -> list[float | None]:
    """q of each verdict, None where there is nothing to adjust."""
    judged = [
        index
        for index, verdict in enumerate(verdicts)
        if verdict.primary and verdict.word not in UNJUDGED and math.isfinite(verdict.p)
    ]
    found: list[float | None] = [None] * len(verdicts)
    for index, q in zip(judged, benjamini_hochberg([verdicts[i].p for i in judged]), strict=True):
        found[index] = q
    return found


def _link(folder: Path, entry: Entry, target: str) -> doc.Piece:
    """To the report of the wanted kind, else to the other, else nowhere."""
    for name in (target, MARKDOWN, PAGE):
        if (folder / entry.report / name).is_file():
            return doc.Link(entry.name, quote((entry.report / name).as_posix()))
    return entry.name
