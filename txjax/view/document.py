"""A document as plain data, to be written as a page (page.py) or as Markdown (markdown.py).

Texts are what they are, never markup: both writers escape every character of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Tone = Literal["good", "bad", "open", "quiet"]


@dataclass(frozen=True)
class Strong:
    text: str


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Link:
    """to: an address that the program made, by quote(); never a text of a study."""

    text: str
    to: str


@dataclass(frozen=True)
class Badge:
    """A word of a verdict, in its colour."""

    text: str
    tone: Tone = "quiet"


Piece = str | Strong | Code | Link | Badge
Text = Piece | Sequence[Piece]


@dataclass(frozen=True)
class Paragraph:
    text: Text
    tone: Literal["plain", "lead", "note", "warning"] = "plain"


@dataclass(frozen=True)
class Items:
    items: Sequence[Text]


@dataclass(frozen=True)
class Listing:
    """Lines of code, a command say."""

    text: str


@dataclass(frozen=True)
class Table:
    """numbers: columns that are set flush right."""

    header: Sequence[str]
    rows: Sequence[Sequence[Text]]
    numbers: Sequence[int] = ()


@dataclass(frozen=True)
class Figure:
    """svg: of style.svg. name: of its file in figures/. about: what is seen, also for who cannot see it."""

    name: str
    svg: str
    about: str


@dataclass(frozen=True)
class Figures:
    """Pictures side by side where there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Fold:
    """What only some readers want to see, behind a line that opens it."""

    title: str
    blocks: Sequence[Block]


Block = Paragraph | Items | Listing | Table | Figure | Figures | Fold


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """kind: what it is, in a word or two, above the title."""

    title: str
    kind: str
    opening: Sequence[Block]
    sections: Sequence[Section] = field(default_factory=tuple)
    foot: Text = ""


def pieces(text: Text) -> list[Piece]:
    return list(text) if isinstance(text, Sequence) and not isinstance(text, str) else [text]


def figures_of(document: Document) -> list[Figure]:
    """Every figure, in order."""

    def within(blocks: Sequence[Block]) -> list[Figure]:
        found: list[Figure] = []
        for block in blocks:
            if isinstance(block, Figure):
                found.append(block)
            elif isinstance(block, Figures):
                found += block.figures
            elif isinstance(block, Fold):
                found += within(block.blocks)
        return found

    return within([*document.opening, *(block for section in document.sections for block in section.blocks)])
