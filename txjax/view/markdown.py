"""A document as Markdown, for a repository: tables with pipes, figures as files beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from txjax.view import document as doc

# Everything that Markdown, or the HTML inside it, may take for markup.
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~$@&!^])")
OPENINGS = re.compile(r"^(\s*)([-+=]|\d+[.)])(?=\s|$|[-=])")  # of a list, a heading or a rule

BRACKETS = re.compile(r"[<>\s\\]")  # what ends the target of a link


def markdown(document: doc.Document, folder: str = "figures") -> str:
    """folder: where the figures lie, from the file."""
    parts = [f"# {escaped(document.title)}", *_blocks(document.opening, folder)]
    for section in document.sections:
        parts += [f"## {escaped(section.title)}", *_blocks(section.blocks, folder)]
    if document.foot:
        parts += ["---", _text(document.foot)]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """The text as Markdown that shows it."""
    line = MARKUP.sub(r"\\\1", " ".join(text.split()))
    line = OPENINGS.sub(lambda found: f"{found[1]}\\{found[2]}" if not found[2][0].isdigit() else _number(found), line)
    return line.replace("://", ":\\//").replace("www.", "www\\.")  # else GitHub makes links of them


def _number(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2][:-1]}\\{found[2][-1]}"


def _blocks(blocks: Sequence[doc.Block], folder: str) -> list[str]:
    return [_block(block, folder) for block in blocks]


def _block(block: doc.Block, folder: str) -> str:
    match block:
        case doc.Paragraph(text, tone):
            return ("> " if tone in ("note", "warning") else "") + _text(text)
        case doc.Items(items):
            return "\n".join(f"- {_text(item)}" for item in items)
        case doc.Listing(text):
            fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
            return f"{fence}\n{text}\n{fence}"
        case doc.Table(header, rows, numbers):
            rule = ["--:" if column in numbers else "---" for column in range(len(header))]
            lines = [[escaped(name) for name in header], rule, *([_text(cell) for cell in row] for row in rows)]
            return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        case doc.Figure(name, _, about):
            return f"![{escaped(about)}]({folder}/{name}.svg)\n\n{escaped(about)}"
        case doc.Figures(figures):
            return "\n\n".join(_block(figure, folder) for figure in figures)
        case doc.Fold(title, inner):
            body = "\n\n".join(_blocks(inner, folder))
            return f"<details><summary>{escaped(title)}</summary>\n\n{body}\n\n</details>"


def _text(text: doc.Text) -> str:
    return "".join(_piece(piece) for piece in doc.pieces(text))


def _piece(piece: doc.Piece) -> str:
    match piece:
        case doc.Strong(text) | doc.Badge(text):
            return f"**{escaped(text)}**" if text.strip() else ""
        case doc.Code(text):
            return _code(text)
        case doc.Link(text, to):
            return f"[{escaped(text)}](<{BRACKETS.sub(_percent, to)}>)"
        case str():
            # spaces at the ends stand between pieces
            lead, tail = (" " if piece[:1].isspace() else ""), (" " if piece[-1:].isspace() else "")
            return f"{lead}{escaped(piece)}{tail}" if piece.strip() else piece and " "


def _code(text: str) -> str:
    """A code span, whose text may have back-ticks and, in tables, pipes."""
    text = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}" if text else ""


def _percent(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"
