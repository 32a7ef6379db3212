"""The report of a study: report.md with its figures for a repository, and report.html, a page that needs nothing else.

Both are drawn from results/ alone, at the end of `txjax ablate` and again by `txjax report`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.lab.record import RECORD, Results, gather
from txjax.lab.sections import document
from txjax.schema import ConfigError
from txjax.store.files import StoreError, reason, write_text
from txjax.view.document import Document, figures_of
from txjax.view.markdown import markdown
from txjax.view.page import page
from txjax.view.style import standalone

if TYPE_CHECKING:
    from txjax.lab.ablate import Outcome

RESULTS, MARKDOWN, PAGE, FIGURES = "results", "report.md", "report.html", "figures"
OWN = re.compile(r"(forest|seeds|difference|levels|probes|rates|costs|studies)\d*")  # names of figures


def write(outcome: Outcome) -> None:
    """results/, report.md, figures/ and report.html of a study that has been judged."""
    gather(outcome).save(outcome.folder / RESULTS)
    render(outcome.folder)


def render(folder: Path) -> Path:
    """Draw the report of a study's folder again from its results; the page."""
    results = Results.load(results_of(folder))
    report = document(results, folder / "cells")
    write_markdown(report, folder, MARKDOWN)
    write_text(folder / PAGE, page(report))
    return folder / PAGE


def publish(folder: Path, target: Path) -> None:
    """What of a study is committed: results, report.md and its figures; no cells, and no page."""
    results = Results.load(folder / RESULTS)
    results.save(target)
    write_markdown(document(results, target / "cells"), target, MARKDOWN)


def results_of(folder: Path) -> Path:
    """Where a study's results lie: in results/ of a folder of runs, in the folder itself once published."""
    return folder / RESULTS if (folder / RESULTS / RECORD).is_file() else folder


def holds_results(folder: Path) -> bool:
    """Whether the folder is a study's own."""
    return (results_of(folder) / RECORD).is_file()


def write_markdown(report: Document, folder: Path, name: str) -> None:
    """The file, and figures/ beside it, from which a report's earlier figures go; whatever else lies there stays."""
    figures = folder / FIGURES
    try:
        figures.mkdir(parents=True, exist_ok=True)
        for old in figures.glob("*.svg"):
            if OWN.fullmatch(old.stem):
                old.unlink()
    except OSError as error:
        raise StoreError(f"cannot write in {figures}: {reason(error)}") from error
    for figure in figures_of(report):
        write_text(figures / f"{figure.name}.svg", standalone(figure.svg))
    write_text(folder / name, markdown(report, FIGURES))


def published_in(file: Path, tier: str) -> Path:
    """experiments/NAME/results/TIER, or STEM-TIER of a study beside it; ConfigError where there is no such folder."""
    if file.suffix != ".py":
        return file / RESULTS / tier
    if not (file.parent / "study.py").is_file():
        raise ConfigError(f"--publish needs a study with a folder of its own: move {file} to experiments/NAME/study.py")
    return file.parent / RESULTS / (tier if file.name == "study.py" else f"{file.stem}-{tier}")


def name_of(file: Path) -> str:
    """What a study is called: its folder's name, with the file's where it is not the folder's own."""
    if file.suffix != ".py":
        return file.resolve().name
    folder = file.resolve().parent
    if file.name == "study.py":
        return folder.name
    return f"{folder.name}-{file.stem}" if (folder / "study.py").is_file() else file.stem
