"""Reports: what they say, that they obey nothing that a study says, and that they can be drawn again."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from small_report import EFFECTS, HOSTILE, LONG, results

from txjax.cli import main
from txjax.config import Config, Data, Model, Train
from txjax.lab import Prediction, Study, difference, index, report, slope
from txjax.lab.ablate import Options, ablate
from txjax.lab.readouts import final
from txjax.lab.record import Results
from txjax.lab.sections import document, staleness
from txjax.schema import ConfigError
from txjax.view.document import Document, figures_of
from txjax.view.markdown import escaped, markdown
from txjax.view.page import page
from txjax.view.style import standalone

FIGURES = {
    *("forest", "seeds", "difference", "difference1", "difference2"),
    *("levels", "probes", "probes1", "rates", "costs"),
}


class Reader(HTMLParser):
    """What a page has in it: its tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def hostile() -> Results:
    return results()


@pytest.fixture(scope="module")
def shown(hostile: Results) -> Document:
    return document(hostile, Path("nowhere"))


def folder_with(results: Results, folder: Path) -> Path:
    results.save(folder / "results")
    report.render(folder)
    return folder


# ---------------------------------------------------------------- what it says


def test_the_page_says_everything(shown: Document):
    text = Reader(page(shown)).text
    assert text.index("Is it so?") < text.index("reproduced (material)") < text.index("Effects")
    for said in (
        "ea833803d1 on 2026-11-30 00:09",  # the registration
        f"{sum(EFFECTS) / 8:+.3g} nats",
        "16 finished, 1 diverged, 1 failed",
        "80,416",
        "model.width 32 →",  # what matching changed
        "operations: -20 mul f32[8]",
        "no verdict is given",  # a tuned setting at the end of its grid
        "python 3.13.0, jax 0.12.0",
        "1 × cpu",
        "All cells ran at commit 0123456789",
    ):
        assert said in text, said


def test_every_figure_is_in_both(hostile: Results, tmp_path: Path):
    folder = folder_with(hostile, tmp_path)
    html, lines = (folder / report.PAGE).read_text(), (folder / report.MARKDOWN).read_text()
    assert set(re.findall(r'<figure id="(\w+)">\s*<svg', html)) == FIGURES
    assert set(re.findall(r"\]\(figures/(\w+)\.svg\)", lines)) == FIGURES
    assert {path.stem for path in (folder / report.FIGURES).iterdir()} == FIGURES


def test_earlier_figures_go_and_other_files_stay(hostile: Results, tmp_path: Path):
    (tmp_path / report.FIGURES).mkdir()
    for name in ("difference9.svg", "mine.svg", "difference.png"):
        (tmp_path / report.FIGURES / name).write_text("as it was")
    folder_with(hostile, tmp_path)
    assert {path.name for path in (tmp_path / report.FIGURES).iterdir()} == {
        *(f"{name}.svg" for name in FIGURES), "mine.svg", "difference.png"
    }  # fmt: skip


def test_figures_are_valid_svg_that_needs_nothing(shown: Document):
    for figure in figures_of(shown):
        root = ElementTree.fromstring(standalone(figure.svg))
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert all(element.tag.rpartition("}")[2] not in ("script", "image") for element in root.iter())


def test_ids_of_a_page_are_unique(shown: Document):
    ids = [value for name, value in Reader(page(shown)).attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 50


def test_the_same_results_are_the_same_report(shown: Document):
    again = document(results(), Path("nowhere"))
    assert page(again) == page(shown) and markdown(again) == markdown(shown)


def test_exploratory_says_why(hostile: Results):
    why = "predictions changed after the first run"
    facts = {**hostile.facts, "registration": {**hostile.facts["registration"], "exploratory": why}}
    assert f"exploratory: {why}" in Reader(page(document(replace(hostile, facts=facts), Path("x")))).text


@pytest.mark.parametrize(
    ("codes", "said", "tone"),
    [
        ([("aaaa", True), ("aaaa", False)], "1 cells ran at commit aaaa, with changes to it", "warning"),
        ([("aaaa", False), ("bbbb", False)], "1 cells ran at commit bbbb. The code has moved on", "note"),
        ([("aaaa", False)], "All cells ran at commit aaaa.", "plain"),
        ([(None, None)], "All cells ran from a package without a commit", "plain"),
    ],
)
def test_staleness(monkeypatch: pytest.MonkeyPatch, codes: list, said: str, tone: str):
    monkeypatch.setattr("txjax.lab.sections.code_version", lambda package: {"commit": "aaaa", "dirty": False})
    text, found = staleness({str(i): {"commit": c, "dirty": d} for i, (c, d) in enumerate(codes)})
    assert said in text and found == tone


# ---------------------------------------------------------------- what a study says is shown, not obeyed


def test_a_page_obeys_no_text(shown: Document):
    made = Reader(page(shown))
    assert HOSTILE in made.text
    assert not {"script", "img", "iframe", "object"} & set(made.tags)
    assert not any(name.startswith("on") for name, _ in made.attributes)
    links = [value for name, value in made.attributes if name in ("href", "src", "xlink:href")]
    assert all(str(link).startswith(("#", "data:,")) for link in links), links


def test_markdown_obeys_no_text(shown: Document):
    reader = MarkdownIt("commonmark", {"html": True}).enable("table")
    html = reader.render(markdown(shown))
    made = Reader(html)
    assert not {"script", "iframe"} & set(made.tags)
    assert all(str(value).startswith("figures/") for name, value in made.attributes if name == "src")
    assert " ".join(HOSTILE.split()) in made.text
    assert not any("javascript" in str(value) for name, value in made.attributes if name == "href")


@pytest.mark.parametrize(
    "text", ["# a", "- a", "1. a", "+ a", "> a", "a | b", "~~a~~", "<b>", "&amp;", "a\n\n# b", "=== "]
)
def test_markdown_shows_text_as_it_is(text: str):
    made = Reader(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(escaped(text)))
    assert made.text.strip() == " ".join(text.split())
    assert set(made.tags) == {"p"}


def test_a_table_of_markdown_keeps_its_columns(shown: Document):
    tables = MarkdownIt("commonmark").enable("table").render(markdown(shown)).split("<table>")
    for table in tables[1:]:
        rows = table.partition("</table>")[0].split("<tr>")[1:]
        assert len({len(re.findall(r"<t[hd]", row)) for row in rows}) == 1


# ---------------------------------------------------------------- a study, and drawing it again


def gradients(config: Config, seed: int) -> dict[str, float]:
    depth = config.model.num_layers
    return {"gradient": (1 + 0.01 * seed) / depth, "theory/gradient": 1 / depth}


def study() -> Study:
    return Study(
        question="Does it fall with depth?",
        base=Config(model=Model(width=16, num_layers=2, vocab_size=8), data=Data(source="copy"), train=Train(steps=1)),
        factors={"model.num_layers": (2, 4, 8)},
        metric=final("gradient"),
        predictions=[
            Prediction("falls", difference(2, 8)),
            Prediction("with depth", slope(lambda s: -s.mean(), "num_layers")),
        ],
        measure=gradients,
        seeds=8,
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study that trains nothing, run from a file as a user's."""
    from txjax.train.stop import graceful_stop

    home = tmp_path_factory.mktemp("experiments") / "depth"
    home.mkdir()
    workdir = home.parent / "work"
    with pytest.MonkeyPatch.context() as patch, graceful_stop() as stop:
        patch.setattr("txjax.lab.ablate.load_study", lambda file: study())
        ablate(home, workdir, Options(anyway=True), Mock(), stop)
    return workdir


def test_a_study_writes_its_report(measured: Path):
    text = Reader((measured / report.PAGE).read_text()).text
    assert "Does it fall with depth?" in text
    assert "reproduced" in text
    assert "theory dashed" in text and "gradient, theory" in text
    assert "model.num_layers: 2 -> 4" in text
    assert str(measured) not in (measured / report.MARKDOWN).read_text()


def test_made_up_results_have_the_form_of_real_ones(measured: Path, hostile: Results):
    real = json.loads((measured / "results" / "report.json").read_text())
    assert set(real) == set(hostile.facts)
    for name in ("registration", "start"):
        assert set(real[name]) == set(hostile.facts[name])
    for name in ("arms", "seeds", "levels", "differences"):
        assert set(real[name][0]) == set(hostile.facts[name][0])


def test_report_draws_the_same_again_without_cells_or_file(
    measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture
):
    again = shutil.copytree(measured, tmp_path / "again")
    for name in (report.PAGE, report.MARKDOWN):
        (again / name).unlink()
    shutil.rmtree(again / report.FIGURES)
    assert main(["report", str(again)]) == 0
    assert capsys.readouterr().out.strip() == str(again / report.PAGE)
    for name in (report.PAGE, report.MARKDOWN):
        assert (again / name).read_text() == (measured / name).read_text()
    shutil.rmtree(again / "cells")
    assert main(["report", str(again)]) == 0
    assert "cells/" in (measured / report.PAGE).read_text()
    assert "cells/" not in (again / report.PAGE).read_text()  # no link to what is not there


def test_publish_copies_no_cells(measured: Path, tmp_path: Path):
    target = report.published_in(tmp_path / "depth", "cpu")
    report.publish(measured, target)
    files = sorted(path.relative_to(tmp_path).as_posix() for path in target.rglob("*") if path.is_file())
    assert files[0].startswith("depth/results/cpu/figures/") and files[-4:] == [
        f"depth/results/cpu/{name}" for name in ("report.json", "report.md", "table.json", "verdicts.json")
    ]
    with pytest.raises(ConfigError, match="folder of its own"):
        report.published_in(Path("some/mine.py"), "cpu")


# ---------------------------------------------------------------- the index


def test_the_index_adjusts_over_all_studies(measured: Path, tmp_path: Path):
    report.publish(measured, tmp_path / "depth" / "results" / "cpu")
    folder_with(results("plain"), tmp_path / "other")
    assert main(["report", str(tmp_path)]) == 0
    entries = index.find(tmp_path)
    assert [entry.report.as_posix() for entry in entries] == ["depth/results/cpu", "other"]
    html, lines = (tmp_path / "index.html").read_text(), (tmp_path / "index.md").read_text()
    links = [value for name, value in Reader(html).attributes if name == "href" and value != "data:,"]
    assert set(links) == {"other/report.html", "depth/results/cpu/report.md"}
    assert all((tmp_path / str(link)).is_file() for link in links)
    assert "other/report.md" in lines


def test_q_is_over_judged_primary_predictions(hostile: Results):
    judged, other, secondary = hostile.verdicts
    made = [replace(judged, p=0.01), replace(other, p=0.04), replace(secondary, p=1e-9), replace(judged, p=0.03)]
    # by hand: the j-th smallest of three times 3 / j, and no larger than the next
    assert index.false_findings(made) == [pytest.approx(0.03), pytest.approx(0.04), None, pytest.approx(0.04)]


def test_nothing_to_report_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture):
    assert main(["report", str(tmp_path)]) == 2
    assert "has no results of studies" in capsys.readouterr().err
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "report.json").write_text("{}")
    assert main(["report", str(tmp_path)]) == 2
    assert "has no table.json" in capsys.readouterr().err


def test_long_names_are_cut_in_figures_only(shown: Document):
    html = page(shown)
    assert LONG in html and "…" in html
