"""The page of `txjax look` in a real browser: what is pointed at lights up, what is chosen is shown, on any screen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from in_browser import show
from small_look import TIRED, WIDE, ZH_TIRED, ZH_WIDE, aligned, encoder, translator

from txjax.view.attention import attention_page
from txjax.view.reading import Reading

PAIR = [encoder("a"), encoder("a", WIDE, seed=7)]
PAGES: dict[str, tuple[list[Reading], tuple[str, str] | None]] = {
    "pair": (PAIR, ("it", "animal")),
    "before and after": ([translator("before"), translator("after", seed=3)], None),
    "pair in Chinese": ([encoder("a", ZH_TIRED), encoder("a", ZH_WIDE, seed=7)], ("它", "猫")),
    "unlike": ([aligned("a"), encoder("b"), translator("c")], None),
    "long": ([encoder("a", [f"token{i}" for i in range(64)])], None),
}
widths = pytest.mark.parametrize("width", [390, 1280])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    for name, (readings, between) in PAGES.items():
        (folder / f"{name}.html").write_text(attention_page(readings, between), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PAGES}


def js(browser: Any, code: str, *arguments: Any) -> Any:
    return browser.execute_script(code, *arguments)


def pick(browser: Any, name: str, value: Any) -> None:
    js(
        browser,
        "const s = document.getElementById(arguments[0]); s.value = arguments[1]; s.dispatchEvent(new Event('change'))",
        name,
        str(value),
    )


def point(browser: Any, pane: int, token: int, kind: str) -> None:
    """An event on a token of the first strip of a pane."""
    js(
        browser,
        "const p = document.querySelectorAll('.pane')[arguments[0]].querySelector('.strip');"
        "p.children[arguments[1]].firstChild.dispatchEvent(new PointerEvent(arguments[2]))",
        pane,
        token,
        kind,
    )


def says(browser: Any) -> list[str]:
    return js(browser, "return [...document.querySelectorAll('.says')].map(p => p.textContent)")


def shades(browser: Any, pane: int, strip: int = 0) -> list[float]:
    return js(
        browser,
        "return [...document.querySelectorAll('.pane')[arguments[0]].querySelectorAll('.strip')[arguments[1]].children]"
        ".map(li => +li.firstChild.style.getPropertyValue('--weight'))",
        pane,
        strip,
    )


def ink(browser: Any, pane: int, row: int) -> int:
    """Pixels with something in them, of a row of the large map."""
    return js(
        browser,
        "const c = document.querySelectorAll('canvas.map')[arguments[0]];"
        "const d = window.devicePixelRatio, y = Math.floor((72 + (arguments[1] + 0.5) * c.cell) * d);"
        "const from = Math.ceil(74 * d), px = c.getContext('2d').getImageData(from, y, c.width - from, 1).data;"
        "return px.filter((v, i) => i % 4 == 3 && v > 8).length",
        pane,
        row,
    )


@widths
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_the_screen_and_nothing_fails(browser: Any, pages: Any, name: str, width: int):
    show(browser, pages[name], width)
    assert browser.title not in ("", "owned")  # as a text on the page asks for
    js(browser, "document.querySelectorAll('details').forEach(fold => fold.open = true)")
    for part in js(browser, "return [...(document.getElementById('part')?.options ?? [])].map(o => o.value)") or [None]:
        if part:
            pick(browser, "part", part)
        assert js(browser, "return document.documentElement.scrollWidth") <= width
        outside = js(
            browser,
            "return [...document.querySelectorAll('#attention *')].filter(e => {"
            " const b = e.getBoundingClientRect(); return b.width && b.right > innerWidth + 1 }).length",
        )
        assert outside == 0
    assert browser.get_log("browser") == []


@widths
def test_a_token_that_is_pointed_at_lights_up_and_a_click_keeps_it(browser: Any, pages: Any, width: int):
    show(browser, pages["pair"], width)
    assert set(shades(browser, 0)) == {0}
    point(browser, 0, 7, "pointerenter")
    weights = PAIR[0].maps["self"][0].weights[0, 7]
    assert shades(browser, 0) == pytest.approx(list(weights**0.5), abs=0.004)
    likeliest = int(weights.argmax())
    assert says(browser)[0].startswith(f"it (7) looks at {TIRED[likeliest]} ({likeliest}) {weights.max():.1f}"[:-1])
    assert says(browser)[1].startswith("it (7) looks at")  # the same token of the other text
    point(browser, 0, 7, "pointerleave")
    assert set(shades(browser, 0)) == {0}
    point(browser, 0, 7, "click")
    point(browser, 0, 2, "pointerenter")
    point(browser, 0, 2, "pointerleave")
    assert shades(browser, 0) == pytest.approx(list(weights**0.5), abs=0.004)
    pressed = js(browser, "return [...document.querySelectorAll('.strip [aria-pressed=true]')].map(b => b.textContent)")
    assert pressed == ["it", "it"]
    point(browser, 0, 7, "click")
    assert set(shades(browser, 0)) == {0} and says(browser)[0].startswith("Point at a token")


@widths
def test_the_map_can_be_pointed_at_too(browser: Any, pages: Any, width: int):
    from selenium.webdriver import ActionChains

    show(browser, pages["pair"], width)
    canvas = browser.find_element("css selector", "canvas.map")
    js(browser, "arguments[0].scrollIntoView({block: 'center'})", canvas)
    high, cell = canvas.rect["height"], js(browser, "return arguments[0].cell", canvas)
    move = ActionChains(browser).move_to_element_with_offset(canvas, 0, int(72 + 7.5 * cell - high / 2))
    move.perform()
    assert says(browser)[0].startswith("it (7) looks at")
    move.click().perform()
    assert "true" in js(browser, "return [...document.querySelectorAll('.strip button')].map(b => b.ariaPressed)")


@widths
def test_every_head_of_every_layer_can_be_chosen_and_is_its_own_map(browser: Any, pages: Any, width: int):
    show(browser, pages["pair"], width)
    point(browser, 0, 7, "click")
    maps = PAIR[0].maps["self"]
    grid = "document.querySelector('.pane .grid')"
    assert js(browser, f"return {grid}.querySelectorAll('button').length") == 72
    for layer in range(6):
        for head in range(12):
            js(browser, f'{grid}.querySelector(\'[data-layer="{layer}"][data-head="{head}"]\').click()')
            assert shades(browser, 0) == pytest.approx(list(maps[layer].weights[head, 7] ** 0.5), abs=0.004)
            chosen = js(browser, "return ['layer', 'head'].map(id => document.getElementById(id).value)")
            assert chosen == [str(layer), str(head)]
    pick(browser, "head", -1)
    assert shades(browser, 0) == pytest.approx(list(maps[5].weights[:, 7].mean(0) ** 0.5), abs=0.004)
    drawn = js(
        browser,
        f"return [...{grid}.querySelectorAll('canvas')].every(c => c.width == 12 && c.toDataURL().length > 300)",
    )
    assert drawn


def test_the_tokens_asked_for_are_compared_first_in_any_script(browser: Any, pages: Any):
    show(browser, pages["pair in Chinese"], 1280)
    assert js(browser, "return document.getElementById('change').textContent").startswith("它 → 猫: 0.")
    told = js(browser, "return ['from', 'to'].map(id => document.getElementById(id).selectedOptions[0].textContent)")
    assert told == ["10 它", "3 猫"]


def test_a_pair_has_the_change_of_a_weight_as_a_number_and_a_picture(browser: Any, pages: Any):
    show(browser, pages["pair"], 1280)

    def change() -> tuple[float, float, float]:
        told = js(browser, "return document.getElementById('change').textContent").replace("−", "-")
        return tuple(map(float, re.findall(r"(?<=[ :→])[-+]?\d\.\d{3}", told)))[:3]  # type: ignore[return-value]

    for layer, head, row, column, there in ((0, 0, 7, 2, (7, 2)), (4, 9, 7, 2, (7, 2)), (4, 9, 11, 3, (12, 3))):
        pick(browser, "layer", layer)
        pick(browser, "head", head)
        if (row, column) != (7, 2):  # what --between chose
            pick(browser, "from", row)
            pick(browser, "to", column)
        before, after = (
            float(reading.maps["self"][layer].weights[head][at])
            for reading, at in zip(PAIR, ((row, column), there), strict=True)  # the last token is the last one of both
        )
        assert change() == pytest.approx((before, after, after - before), abs=0.006)
    titles = js(browser, "return [...document.querySelectorAll('section:nth-child(2) .grid button')].map(b => b.title)")
    by = PAIR[1].maps["self"][4].weights[9][12, 3] - PAIR[0].maps["self"][4].weights[9][11, 3]
    assert len(titles) == 72
    assert float(titles[4 * 12 + 9].rpartition(": ")[2].replace("−", "-")) == pytest.approx(by, abs=0.006)


@widths
def test_rows_grow_while_the_run_writes(browser: Any, pages: Any, width: int):
    show(browser, pages["before and after"], width)

    def seen() -> list[bool]:
        return js(browser, "return [...document.querySelector('.strip').children].map(li => !li.firstChild.hidden)")

    def slide(count: int) -> None:
        js(
            browser,
            "const s = document.getElementById('shown'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            count,
        )

    assert seen() == [True] * 6
    for count in (1, 3, 6):
        slide(count)
        assert seen() == [True] * count + [False] * (6 - count)
        assert [ink(browser, 0, row) > 0 for row in range(6)] == seen()
    slide(1)
    browser.set_script_timeout(20)
    grew = browser.execute_async_script(
        "const done = arguments[0], seen = []; document.getElementById('play').click();"
        "const look = setInterval(() => { seen.push(+document.getElementById('shown').value);"
        " if (document.getElementById('play').textContent == 'play') { clearInterval(look); done(seen) } }, 50)"
    )
    assert grew == sorted(grew) and set(grew) >= {2, 3, 4, 5, 6} and seen() == [True] * 6


def test_encoder_decoder_and_cross_have_maps_of_their_own_in_both_checkpoints(browser: Any, pages: Any):
    show(browser, pages["before and after"], 1280)
    readings = PAGES["before and after"][0]
    headings = js(browser, "return [...document.querySelectorAll('.pane h3')].map(h => h.textContent)")
    assert headings == ["before", "after"]
    for part, layer, strip in (("self", 1, 0), ("cross", 0, 1), ("encoder", 2, 0)):
        pick(browser, "part", part)
        pick(browser, "layer", layer)
        pick(browser, "head", 1)
        point(browser, 1, 3, "pointerenter")
        for pane, reading in enumerate(readings):
            [one] = [one for one in reading.maps[part] if one.layer == layer]  # type: ignore[index]
            assert shades(browser, pane, strip) == pytest.approx(list(one.weights[1, 3] ** 0.5), abs=0.004)
        point(browser, 1, 3, "pointerleave")
    pick(browser, "part", "cross")
    assert js(browser, "return [...document.getElementById('layer').options].map(o => o.value)") == ["0"]


def test_what_heads_are_for_is_chosen_by_name_and_leads_to_the_head(browser: Any, pages: Any):
    show(browser, pages["before and after"], 1280)
    pick(browser, "number0", "knocked out")
    told = js(
        browser,
        "return [...document.querySelectorAll('.pane .grid.flat')[0].querySelectorAll('button')].map(b => b.title)",
    )
    assert told == [
        "layer 0, head 0: knocked out 0.100",
        "layer 0, head 1: knocked out -0.200",
        "layer 1, head 0: knocked out 0.300",
        "layer 1, head 1: knocked out 0.00",
    ]
    js(browser, "document.querySelectorAll('.pane .grid.flat')[0].querySelectorAll('button')[2].click()")
    assert js(browser, "return [document.getElementById('layer').value, document.getElementById('head').value]") == [
        "1",
        "0",
    ]


def test_the_dark_page_draws_in_its_own_colours(browser: Any, pages: Any):
    seen = set()
    for scheme in ("light", "dark"):
        show(browser, pages["pair"], 1280, scheme)
        assert ink(browser, 0, 3) > 0
        seen.add(js(browser, "return document.querySelector('canvas.map').toDataURL()"))
    assert len(seen) == 2
