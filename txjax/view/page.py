"""A document as one HTML page that needs nothing beside it: style, figures and what moves inside, no network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from txjax.view import document as doc

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # nothing is fetched, from anywhere
SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
<header>
<p class="kind">{kind}</p>
<h1>{title}</h1>
{opening}
</header>
{live}{sections}
<footer>{foot}</footer>
</main>
{script}</body>
</html>
"""


@dataclass(frozen=True)
class Live:
    """What moves on a page, before its sections. name: of the element that the script fills, and of its style NAME.css.
    scripts: files that are one script, in order, beside this one. data: what the script finds as JSON in the element
    `data`.
    """

    name: str
    scripts: tuple[str, ...]
    data: Any


def page(document: doc.Document, live: Live | None = None) -> str:
    """A script runs only where there is something live: the page's policy names this one by its hash."""
    parts = {"policy": POLICY, "live": "", "script": ""} if live is None else _alive(live)
    return SHELL.format(
        title=escape(document.title),
        kind=escape(document.kind),
        style=_beside("page.css") + ("" if live is None else _beside(f"{live.name}.css")),
        opening=_blocks(document.opening),
        **parts,
        sections="\n".join(
            f"<section>\n<h2>{escape(section.title)}</h2>\n{_blocks(section.blocks)}\n</section>"
            for section in document.sections
        ),
        foot=_text(document.foot),
    )


def _alive(live: Live) -> dict[str, str]:
    script = "\n" + "\n".join(map(_beside, live.scripts))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = json.dumps(live.data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return {
        "policy": f"{POLICY}; script-src 'sha256-{digest}'",
        "live": f'<div id="{live.name}"><noscript><p>This part needs JavaScript.</p></noscript></div>\n',
        "script": f'<script id="data" type="application/json">{data}</script>\n<script>{script}</script>\n',
    }


def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _blocks(blocks: Sequence[doc.Block]) -> str:
    return "\n".join(_block(block) for block in blocks)


def _block(block: doc.Block) -> str:
    match block:
        case doc.Paragraph(text, tone):
            return f'<p class="{tone}">{_text(text)}</p>'
        case doc.Items(items):
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"
        case doc.Listing(text):
            return f"<pre>{escape(text)}</pre>"
        case doc.Table():
            return _table(block)
        case doc.Figure(name, svg, about):
            return f'<figure id="{escape(name)}">\n{svg}\n<figcaption>{escape(about)}</figcaption>\n</figure>'
        case doc.Figures(figures):
            return '<div class="figures">\n' + "\n".join(_block(figure) for figure in figures) + "\n</div>"
        case doc.Fold(title, inner):
            return f"<details><summary>{escape(title)}</summary>\n{_blocks(inner)}\n</details>"


def _table(table: doc.Table) -> str:
    def row(cells: Sequence[doc.Text], tag: str) -> str:
        kinds = [' class="number"' if column in table.numbers else "" for column in range(len(cells))]
        inner = (f"<{tag}{kind}>{_text(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(inner)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    # the frame scrolls where a table is wider than a phone, not the page; the index lets a keyboard reach it
    return (
        f'<div class="wide" tabindex="0"><table>\n<thead>{row(table.header, "th")}</thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _text(text: doc.Text) -> str:
    return "".join(_piece(piece) for piece in doc.pieces(text))


def _piece(piece: doc.Piece) -> str:
    match piece:
        case doc.Strong(text):
            return f"<strong>{escape(text)}</strong>"
        case doc.Code(text):
            return f"<code>{escape(text)}</code>"
        case doc.Badge(text, tone):
            return f'<span class="badge {tone}">{escape(text)}</span>'
        case doc.Link(text, to):
            return f'<a href="{escape(to)}">{escape(text)}</a>'
        case str():
            return escape(piece)
