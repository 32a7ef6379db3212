"""The source of the interpreter's library, with what Python's own tokenizer says of each part: tagging without a
download. It differs from one Python version to the next, so that no pinned result may use it.
"""

from __future__ import annotations

import io
import keyword
import sys
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SMALL = 16_000  # bytes of the modules that are read: the tokenizer is slow
KINDS = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.COMMENT: "comment", tokenize.OP: "operator"}


class Tagged(NamedTuple):
    """A text, and spans of it: from, to (in characters), the tag."""

    text: str
    spans: list[tuple[int, int, str]]


def documents() -> Iterator[Tagged]:
    """The library's small top-level public modules, by name. Tags: comment, keyword, name, number, operator, string;
    white space has none.
    """
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*.py")):
        if file.stem in sys.stdlib_module_names and 0 < file.stat().st_size <= SMALL:
            with tokenize.open(file) as stream:
                text = stream.read()
            yield Tagged(text, list(_spans(text)))


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    starts = [0]  # of each line
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        tag = _tag(token)
        if tag is not None:
            (row, column), (last_row, last_column) = token.start, token.end
            yield starts[row - 1] + column, starts[last_row - 1] + last_column, tag


def _tag(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NAME:
        return "keyword" if keyword.iskeyword(token.string) else "name"
    if tokenize.tok_name[token.type].startswith("FSTRING"):  # from Python 3.12 on an f-string comes in parts
        return "string"
    return KINDS.get(token.type)
