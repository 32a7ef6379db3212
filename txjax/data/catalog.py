"""What `txjax data list` and `txjax data show` print."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np

from txjax.config.data import Split
from txjax.config.root import Config
from txjax.data import corpora
from txjax.data.sources.text import EMBEDDED
from txjax.data.textual import Textual

SHOWN_CHARACTERS = 400


class Row(NamedTuple):
    """One corpus, as a line of the list."""

    name: str
    what: str
    size: str
    place: str
    licence: str
    source: str


def rows() -> list[Row]:
    """The embedded corpus, then every named one; `place` is its folder, or says how to get it."""
    own = Row(EMBEDDED, "this interpreter's documentation and library source", "", "embedded", "PSF", "python.org")
    return [own, *(_row(corpus) for corpus in corpora.CORPORA.values())]


def _row(corpus: corpora.Corpus) -> Row:
    found = [corpora.where(corpus, file) for file in corpus.files]
    place = f"txjax data fetch {corpus.name}" if None in found else str(found[0].parent)  # type: ignore[union-attr]
    return Row(corpus.name, corpus.what, corpora.in_bytes(corpus.size), place, corpus.licence, corpus.source)


def show(config: Config, count: int) -> list[str]:
    """Lines that describe the data of a config: the vocabulary, the report of each split, the arrays of a row, and the
    first `count` training examples.
    """
    data, section = config.data.source.load(config, None), config.data  # whatever the model
    lines = [f"source     {section.source}"]
    if section.source.context is None:
        lines.append(f"tokenizer  {section.tokenizer}")
    if isinstance(section.source, Textual):
        lines += [f"chunking   {section.chunking}", f"objective  {section.objective}"]
    lines.append(f"vocabulary {data.codec.vocab_size:,} ids, separator {data.codec.separator}")
    if data.codec.classes:
        lines.append(f"classes    {len(data.codec.classes)}: {', '.join(data.codec.classes)}"[:SHOWN_CHARACTERS])
    for split in get_args(Split):
        if split != "test" or data.test is not None:
            lines.append(f"{split:10} {data.split(split).report}")
    row = data.train.gather(np.array([0]))
    lines.append(f"a row      {', '.join(f'{name} {list(array.shape[1:])}' for name, array in row.items())}")
    for index in range(min(count, len(data.train))):
        lines += [f"example {index}:", *map(_shortened, data.train.show(index, data.codec))]
    return lines


def _shortened(line: str) -> str:
    more = "" if len(line) <= SHOWN_CHARACTERS else f" ... {len(line) - SHOWN_CHARACTERS:,} more characters"
    return f"  {line[:SHOWN_CHARACTERS]}{more}"
