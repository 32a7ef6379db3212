"""What `txjax data list` and `txjax data show` print."""

from __future__ import annotations

from typing import NamedTuple

from txjax.config.root import Config
from txjax.data import corpora
from txjax.data.dataset import Dataset, load
from txjax.data.sequences import Sequences
from txjax.data.sources.text import EMBEDDED

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
    """Lines that describe the data of a config: the vocabulary, both reports, and the first `count` sequences."""
    data = load(config)
    lines = [
        f"source     {config.data.source}",
        f"tokenizer  {config.data.tokenizer}: {data.codec.vocab_size:,} ids, separator {data.codec.separator}",
        f"chunking   {config.data.chunking}",
        f"train      {data.train.report}",
        f"validation {data.validation.report}",
    ]
    for index in range(min(count, len(data.train))):
        lines += [f"sequence {index}:", *_excerpt(data, data.train, index)]
    return lines


def _excerpt(data: Dataset, sequences: Sequences, index: int) -> list[str]:
    """The text of a sequence, shortened; each packed document begins a line."""
    lines = []
    for start, stop, _ in sequences.spans[sequences.rows[index] : sequences.rows[index + 1]]:
        text = data.codec.decode(sequences.tokens[start : stop - 1])
        more = "" if len(text) <= SHOWN_CHARACTERS else f" ... {len(text) - SHOWN_CHARACTERS:,} more characters"
        lines.append(f"  {text[:SHOWN_CHARACTERS]!r}{more}")
    return lines
