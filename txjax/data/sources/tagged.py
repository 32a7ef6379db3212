"""Texts with a tag for each token as a source: tagging."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, get_args

import numpy as np

from txjax.config.data import Data, Source, Split
from txjax.data import interpreter, python_tokens
from txjax.data.annotated import Annotated, classes_of, require_outputs, splits, thinned
from txjax.data.buckets import Widths, in_widths_of_training
from txjax.data.codec import Codec
from txjax.data.dataset import Dataset
from txjax.data.python_tokens import Tagged as Text
from txjax.data.reading import file_text
from txjax.schema import ConfigError, nearest, require

if TYPE_CHECKING:
    from txjax.config.root import Config

PYTHON = "python_tokens"
SUFFIXES = (".tsv", ".txt", ".conll")
NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train",), "validation": ("validation", "valid", "dev"), "test": ("test",)
}  # fmt: skip


@dataclass(frozen=True)
class Tagged(Source, kind="tagged"):
    """name: python_tokens, the interpreter's own library with the classes of Python's tokenizer; or a file with a word
        and, last in its line, its tag, and an empty line after each sentence (CoNLL); or a folder with such files
        train.*, validation.* (valid, dev) and perhaps test.*.
    buckets: lengths that rows are padded to, as of labelled: for sentences, much shorter than data.context.

    A file is cut by data.validation and data.test, in its own order. Words are joined by single spaces. A token has the
    tag of the first character in it that has one; the target of a token without is not scored. Long texts go on in
    further rows; targets are [B, T], numbers of the tags of training by name, which the run keeps beside its tokenizer.
    """

    name: str = PYTHON
    buckets: int = 1

    unused: ClassVar = ("chunking", "objective")

    @classmethod
    def named(cls) -> Iterable[str]:
        return (PYTHON,)

    def check(self) -> None:
        require(self.buckets > 0, f"buckets must be at least 1, got {self.buckets}")

    def judge(self, config: Config, codec: Codec) -> None:
        require_outputs(config.model, codec.classes, one_a_row=False)

    def codec(self, data: Data) -> Codec:
        return self._codec(data, self.texts(data)["train"] or [])

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        texts = self.texts(config.data)
        codec = self._codec(config.data, texts["train"] or []) if saved is None else saved
        config.with_vocab(codec.vocab_size)
        return Dataset(codec, *in_widths_of_training(texts, self.buckets, partial(self._rows, codec, config)))  # type: ignore[arg-type]

    def texts(self, data: Data) -> dict[Split, list[Text] | None]:
        """The texts of each split with the tags of their parts; None where there is no test."""
        if self.name == PYTHON:
            places = {split: interpreter.side(split, with_test=data.test > 0) for split in get_args(Split)}
            every = list(python_tokens.documents())
            return {
                split: [text for number, text in enumerate(every) if belongs(number)] or None
                for split, belongs in places.items()
            }
        own = {split: self._own(split) for split in get_args(Split)}
        return splits(own, read(self._path()) if own["train"] is None else None, data, shuffled=False)

    def _codec(self, data: Data, train: list[Text]) -> Codec:
        tags = tuple(sorted({tag for text in train for _, _, tag in text.spans}))
        return data.tokenizer.build(text.text for text in train).extended((), tags)

    def _rows(self, codec: Codec, config: Config, texts: list[Text], split: Split, widths: Widths) -> Annotated:
        rows, targets = [], []
        for text in texts:
            tokens = codec.encode(text.text)
            tags = token_tags(text, tokens, codec, split)
            for start in range(0, len(tokens), config.context):
                rows.append(tokens[start : start + config.context])
                targets.append(tags[start : start + config.context])
        kept = list(range(len(rows)))
        kept = kept if split == "train" else thinned(kept, config.data.held_out)
        rows, targets = [rows[i] for i in kept], [targets[i] for i in kept]
        return Annotated(rows, targets, config.context, codec.classes, shortened=0, widths=widths)

    def _own(self, split: Split) -> list[Text] | None:
        path = self._path()
        if not path.is_dir():
            return None
        files = [f for f in sorted(path.iterdir()) if f.stem in NAMES[split] and f.suffix in SUFFIXES]
        require(
            len(files) == 1 or (not files and split != "train"),
            f"{path} must have one {split}{SUFFIXES[0]} ({', '.join(SUFFIXES[1:])}), got {len(files)} of them",
        )
        return read(files[0]) if files else None

    def _path(self) -> Path:
        path = Path(self.name).expanduser()
        if not (path.is_dir() or (path.is_file() and path.suffix in SUFFIXES)):
            raise ConfigError(
                f"data.source.tagged.name={self.name!r} is neither {PYTHON} nor an existing folder or "
                f"{', '.join(SUFFIXES)} file{nearest(self.name, [PYTHON])}"
            )
        return path


def token_tags(text: Text, tokens: np.ndarray, codec: Codec, split: Split) -> np.ndarray:
    """int32, the number of each token's tag, or -1 where it has none."""
    lengths = [len(codec.pieces[token]) for token in tokens.tolist()]
    byte_of = np.cumsum([0, *(len(character.encode()) for character in text.text)])  # where each character begins
    require(
        sum(lengths) == byte_of[-1],
        "data.tokenizer must spell a text byte for byte to be tagged: use bytes, char or bpe",
    )
    numbers = classes_of([tag for _, _, tag in text.spans], codec.classes, split)
    tags = np.full(byte_of[-1], -1, np.int32)
    for (start, stop, _), number in zip(text.spans, numbers, strict=True):
        tags[byte_of[start] : byte_of[stop]] = number
    tagged = np.append(np.flatnonzero(tags >= 0), len(tags))
    ends = np.cumsum(lengths)
    first = tagged[np.searchsorted(tagged, ends - lengths)]  # the first byte with a tag, from the token's beginning on
    return np.where(first < ends, np.append(tags, -1)[first], -1).astype(np.int32)


def read(file: Path) -> list[Text]:
    """The sentences of a file of words and tags; ConfigError with file and line for one without a tag."""
    sentences: list[list[tuple[str, str]]] = [[]]
    for number, line in enumerate(file_text(file).split("\n"), 1):
        columns = line.split()
        if not columns:
            sentences.append([])
        elif len(columns) < 2:
            raise ConfigError(f"{file}, line {number}: a word and its tag, apart by white space, got {line!r}")
        else:
            sentences[-1].append((columns[0], columns[-1]))
    found = [_sentence(words) for words in sentences if words]
    require(bool(found), f"{file} holds no sentence: remove it, or fill it")
    return found


def _sentence(words: list[tuple[str, str]]) -> Text:
    spans, at = [], 0
    for word, tag in words:
        spans.append((at, at + len(word), tag))
        at += len(word) + 1
    return Text(" ".join(word for word, _ in words), spans)
