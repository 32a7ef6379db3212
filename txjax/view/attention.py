"""Readings of texts as one page: maps to point at, heads by what they are for, and what each layer would say."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.probe.layers import PARTS, Part
from txjax.view import document as doc
from txjax.view.page import Live, page
from txjax.view.reading import Heads, Lens, Map, Reading
from txjax.view.style import shortened

SCRIPTS = ("attention_data.js", "attention_drawing.js", "attention.js")
CAPTION = (
    "Attention is not proof. A weight says how much of a token's value one head mixes in, not what the model decides "
    "by: other weights can give the same answer (Jain and Wallace 2019), and whether weights explain one depends on "
    "what is asked of an explanation (Wiegreffe and Pinter 2019). Take a map for a question, and knock the head out to "
    "ask it."
)


def attention_page(readings: Sequence[Reading], between: tuple[str, str] | None = None) -> str:
    """The page of one or more readings, which are compared side by side. between: the tokens whose weight is compared
    at first, the one that looks and the one it looks at.
    """
    first = readings[0]
    document = doc.Document(
        title=shortened(first.text, 90) or "no text",
        kind="where a model looks",
        opening=[
            doc.Paragraph(f"{_several(readings)}. Point at a token: its row says where it looks.", "lead"),
            doc.Paragraph(CAPTION, "warning"),
            doc.Paragraph(
                "A shade is the square root of a weight, so that small ones are seen; numbers are right to 0.004. With "
                "sinks, a row may add up to less than 1.",
                "note",
            ),
        ],
        sections=[section for reading in readings for section in _sections(reading, readings)],
        foot="Weights are those of attention as it is written, whatever implementation the model trains with.",
    )
    return page(document, Live("attention", SCRIPTS, facts(readings, between)))


def facts(readings: Sequence[Reading], between: tuple[str, str] | None = None) -> dict[str, Any]:
    """What the page's script reads."""
    names = {"self": readings[0].own, "cross": "cross: decoder to encoder", "encoder": "encoder"}
    present = [part for part in PARTS if any(part in reading.maps for reading in readings)]
    return {
        "parts": [{"name": part, "label": names[part]} for part in present],
        "panes": [_pane(reading, readings) for reading in readings],
        "between": list(between or ("", "")),
    }


def shades(weights: np.ndarray) -> str:
    """Weights in 0 .. 1 as base64 of bytes 255 sqrt(w), row after row; off by at most sqrt(w) / 255 + 1e-5."""
    return base64.b64encode(np.rint(255 * np.sqrt(np.clip(weights, 0, 1))).astype(np.uint8).tobytes()).decode()


def _pane(reading: Reading, readings: Sequence[Reading]) -> dict[str, Any]:
    return {
        "title": _title(reading, readings),
        "tokens": reading.tokens,
        "source": reading.source,
        "given": reading.given,
        "maps": {part: [_map(one) for one in maps] for part, maps in reading.maps.items()},
        "heads": [_numbers(one) for one in reading.heads],
    }


def _map(one: Map) -> dict[str, Any]:
    heads, rows, columns = one.weights.shape
    return {"layer": one.layer, "heads": heads, "rows": rows, "columns": columns, "bytes": shades(one.weights)}


def _numbers(one: Heads) -> dict[str, Any]:
    values = [[float(f"{value:.4g}") for value in row] for row in np.nan_to_num(one.values)]
    return {"name": one.name, "part": one.part, "layers": list(one.layers), "values": values, "about": one.about}


def _title(reading: Reading, readings: Sequence[Reading]) -> str:
    """What tells a reading from the others: its run, its text, or both."""
    runs, texts = ({getattr(one, name) for one in readings} for name in ("run", "text"))
    parts = [reading.run] if len(runs) > 1 or len(texts) == 1 else []
    return " · ".join([*parts, shortened(reading.text, 80)] if len(texts) > 1 else parts)


def _several(readings: Sequence[Reading]) -> str:
    runs = list(dict.fromkeys(one.run for one in readings))
    return f"{runs[0]} reads" if len(runs) == 1 else f"{', '.join(runs[:-1])} and {runs[-1]} read"


def _sections(reading: Reading, readings: Sequence[Reading]) -> list[doc.Section]:
    title = f": {_title(reading, readings)}" if len(readings) > 1 else ""
    blocks: list[doc.Block] = [doc.Paragraph(text, "note") for text in reading.missing]
    for part in PARTS:
        if known := [one for one in reading.heads if one.part == part]:
            about = [doc.Items([f"{one.name}: {one.about}" for one in known])]
            blocks += [*about, doc.Fold(f"Every head, {_name(reading, part)}", [_heads(known)])]
    found = [doc.Section(f"What heads are for{title}", blocks)]
    if reading.lens is not None:
        found.append(doc.Section(f"What each layer would say{title}", _lens(reading.lens)))
    return found


def _name(reading: Reading, part: Part) -> str:
    return reading.own if part == "self" else part


def _heads(known: Sequence[Heads]) -> doc.Table:
    layers, count = known[0].layers, known[0].values.shape[1]
    rows = [
        [str(layer), str(head), *(f"{one.values[i, head]:.3g}" for one in known)]
        for i, layer in enumerate(layers)
        for head in range(count)
    ]
    return doc.Table(["layer", "head", *(one.name for one in known)], rows, numbers=range(len(known) + 2))


def _lens(lens: Lens) -> list[doc.Block]:
    """A column a token, a row a layer, the last layer first."""
    layers = ["embedding", *(f"layer {i}" for i in range(len(lens.words) - 1))]
    rows: list[list[doc.Text]] = [
        [name, *(f"{word} {p:.0%}" for word, p in zip(words, shares, strict=True))]
        for name, words, shares in zip(layers, lens.words, lens.probabilities, strict=True)
    ]
    about = (
        "Under each token that is read, the likeliest token had the model ended after that layer: its final norm and "
        "head on the layer's residual stream (nostalgebraist 2020). The last layer's row is what the model says."
    )
    return [doc.Paragraph(about, "note"), doc.Table(["after", *lens.at], rows[::-1])]
