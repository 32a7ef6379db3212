"""The report in a real browser: no error, every figure there, nothing wider than the screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from in_browser import show
from small_report import results

from txjax.lab import index, report


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report, whose texts are hostile, and an index over it."""
    folder = tmp_path_factory.mktemp("studies")
    results().save(folder / "mine" / "results")
    return {"report": report.render(folder / "mine"), "index": index.write(folder)}


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["report", "index"])
def test_nothing_is_wider_than_the_screen(browser: Any, pages: dict[str, Path], name: str, width: int):
    show(browser, pages[name], width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_script("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("width", [390, 1280])
def test_every_figure_is_drawn(browser: Any, pages: dict[str, Path], width: int):
    show(browser, pages["report"], width)
    figures = browser.execute_script(
        "return [...document.querySelectorAll('figure')].map(figure => {"
        " const box = figure.querySelector('svg').getBoundingClientRect();"
        " return [figure.id, box.width, box.height, figure.querySelectorAll('svg text').length] })"
    )
    assert {figure[0] for figure in figures} == {
        "forest", "seeds", "difference", "difference1", "difference2", "levels", "rates", "costs",
        "probes", "probes1",
    }  # fmt: skip
    for name, wide, high, texts in figures:
        assert wide >= 300 and high >= 60 and texts >= 2, name


def test_texts_of_figures_can_be_read_on_a_phone(browser: Any, pages: dict[str, Path]):
    show(browser, pages["report"], 390)
    heights = browser.execute_script(
        "return [...document.querySelectorAll('figure svg text')].filter(text => text.textContent.length > 3)"
        ".map(text => text.getBoundingClientRect()).map(box => Math.min(box.width, box.height))"
    )
    assert heights and min(heights) >= 7  # pixels of a box, of which a letter is most


def test_texts_stay_within_their_figures(browser: Any, pages: dict[str, Path]):
    show(browser, pages["report"], 390)
    outside = browser.execute_script(
        "return [...document.querySelectorAll('figure svg')].flatMap(svg => {"
        " const frame = svg.getBoundingClientRect();"
        " return [...svg.querySelectorAll('text')].filter(text => {"
        "  const box = text.getBoundingClientRect();"
        "  return box.left < frame.left - 1 || box.right > frame.right + 1"
        " }).map(text => text.textContent) })"
    )
    assert outside == []


def test_the_dark_page_is_dark_with_light_ink(browser: Any, pages: dict[str, Path]):
    def brightness(what: str, name: str) -> float:
        colour = browser.execute_script(
            f"return getComputedStyle(document.querySelector('{what}')).getPropertyValue('{name}')"
        )
        return sum(float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]) / 3

    seen = {}
    for scheme in ("light", "dark"):
        show(browser, pages["report"], 1280, scheme)
        assert browser.title.startswith("Is it so?")  # and not what a text in it asks for
        ink = brightness("figure svg text", "fill"), brightness("h1", "color")
        seen[scheme] = ink[0], ink[1], brightness("section", "background-color")
    assert seen["light"][2] > 200 > 100 > max(seen["light"][:2])
    assert seen["dark"][2] < 60 < 150 < min(seen["dark"][:2])
