"""Text as a source: the interpreter's documentation, a named corpus, a file or a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from txjax.config.data import Source, Split
from txjax.data import corpora, interpreter, reading
from txjax.schema import ConfigError, nearest

EMBEDDED = "python"


@dataclass(frozen=True)
class Text(Source, kind="text"):
    """name: python, a corpus (`txjax data list`), or the path of a .txt file (one document), a .jsonl file (one
        document a line) or a folder of them.
    field: of a .jsonl line, that holds its text.

    A folder with train.* and validation.*, files or folders, keeps that split; python has its own too. Any other
    text is cut at its share `data.validation`: the last part, to the character, is held out.
    """

    name: str = EMBEDDED
    field: str = "text"

    def documents(self, split: Split, validation: float) -> Iterator[str]:
        if self.name == EMBEDDED:
            return interpreter.documents(split)
        path = self._path()
        own = reading.own_split(path, split)
        if own is not None:
            return reading.read(own, self.field)
        return cut(list(reading.read(path, self.field)), split, validation)

    def _path(self) -> Path:
        if self.name in corpora.CORPORA:
            corpus = corpora.CORPORA[self.name]
            if corpus.text is None:
                raise ConfigError(f"data.source={self.name!r} holds {corpus.what}, not text")
            return corpora.locate(corpus.name, corpus.text)
        path = Path(self.name).expanduser()
        if not path.exists():
            names = [EMBEDDED, *(name for name, corpus in corpora.CORPORA.items() if corpus.text)]
            raise ConfigError(
                f"data.source={self.name!r} is neither a corpus ({', '.join(names)}) nor an existing file or folder"
                f"{nearest(self.name, names)}"
            )
        return path


def cut(documents: list[str], split: Split, validation: float) -> Iterator[str]:
    """The documents of one side of a cut that leaves the last `validation` share of all characters on the other.

    The cut is int(n * (1 - validation)), to the character; the document that it falls into is divided.
    """
    left = int(sum(map(len, documents)) * (1.0 - validation))  # characters before the cut
    for text in documents:
        part = text[:left] if split == "train" else text[left:]
        left = max(0, left - len(text))
        if part:
            yield part
