"""Text as a source: the interpreter's documentation, a named corpus, a file or a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from txjax.config.data import Data, Split
from txjax.data import corpora, interpreter, reading
from txjax.data.textual import Textual
from txjax.schema import ConfigError, nearest, require

EMBEDDED = "python"


@dataclass(frozen=True)
class Text(Textual, kind="text"):
    """name: python, a corpus (`txjax data list`), or the path of a .txt file (one document), a .jsonl file (one
        document a line) or a folder of them.
    field: of a .jsonl line, that holds its text.

    A folder with train.* and validation.*, files or folders, keeps that split, and has a test where it has test.*;
    python has a split of its own too, with a test where `data.test` is not 0. Any other text is cut by the shares
    `data.validation` and `data.test`: train, validation, test, in this order, to the character.
    """

    name: str = EMBEDDED
    field: str = "text"

    def documents(self, split: Split, data: Data) -> Iterator[str] | None:
        if self.name == EMBEDDED:
            known = split != "test" or data.test > 0
            return interpreter.documents(split, with_test=data.test > 0) if known else None
        path = self._path()
        own = reading.own_splits(path)
        if own:
            require(
                data.test == 0 or "test" in own,
                f"data.test={data.test} cuts no text that has a split of its own: add test.txt to {path}",
            )
            return reading.read(own[split], self.field) if split in own else None
        if split == "test" and not data.test:
            return None
        return cut(list(reading.read(path, self.field)), split, data.validation, data.test)

    def _path(self) -> Path:
        if self.name in corpora.CORPORA:
            corpus = corpora.CORPORA[self.name]
            if corpus.text is None:
                raise ConfigError(f"data.source={self.name!r} holds {corpus.what}, not text")
            return corpora.locate(corpus.name, corpus.text)
        path = Path(self.name).expanduser()
        if not path.exists():
            texts = (name for name, corpus in corpora.CORPORA.items() if corpus.text)
            names = [EMBEDDED, *texts, *(kind for kind in self.members() if kind != self.kind)]
            raise ConfigError(
                f"data.source={self.name!r} is neither a corpus or task ({', '.join(names)}) nor an existing file or "
                f"folder{nearest(self.name, names)}"
            )
        return path


def cut(documents: list[str], split: Split, validation: float, test: float) -> Iterator[str]:
    """The part of the documents, laid end to end, that is a split: [0, a) is train, [a, b) validation, [b, n) test,
    of n characters, a = int(n (1 - (validation + test))) and b = int(n (1 - test)). A document that a cut falls into is
    divided.
    """
    count = sum(map(len, documents))
    cuts = [0, int(count * (1.0 - (validation + test))), int(count * (1.0 - test)), count]
    side = ("train", "validation", "test").index(split)
    start, stop = cuts[side], cuts[side + 1]
    for text in documents:
        part = text[max(0, start) : max(0, stop)]
        start, stop = start - len(text), stop - len(text)
        if part:
            yield part
