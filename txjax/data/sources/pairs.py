"""Sentences and their translations as a source: an encoder reads the one, a decoder writes the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from txjax.config.data import Data, Source, Split, Tokenizer
from txjax.data import corpora
from txjax.data.buckets import Buckets, Widths, fitting, in_widths_of_training
from txjax.data.codec import Codec
from txjax.data.dataset import Dataset
from txjax.data.reading import file_text, lines_of
from txjax.data.sequences import DTYPES
from txjax.schema import ConfigError, nearest, require

if TYPE_CHECKING:
    from txjax.config.root import Config

Pair = tuple[str, str]
NAMES: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test",),
}


@dataclass(frozen=True)
class Pairs(Source, kind="pairs"):
    """name: a corpus of pairs (`txjax data list`), a folder of train.LANGUAGE, validation.LANGUAGE and test.LANGUAGE,
        one sentence a line, or a .tsv file, a pair a line, which is cut by `data.validation` and `data.test`.
    source, target: the languages, as the files' names end; of a .tsv file the numbers of its columns, from 0.
    source_tokenizer: of the source; none: data.tokenizer reads both languages, with one vocabulary.
    buckets: lengths that rows are padded to, made from the training pairs; each is a program of its own.

    The encoder reads encode(source) + end (Codec.source_ids: behind bos where its tokenizer has one); the decoder reads
    start + encode(target), where the start is the end unless its tokenizer has another (Codec.start), and predicts
    encode(target) + end. A batch holds pairs of about one length, as many as fit into train.batch_size x data.context
    positions, and a multiple of train.batch_size: more of short ones. Pairs longer than data.context on a side are left
    out of training, and cut outside of it.
    """

    name: str = ""
    source: str = "en"
    target: str = "de"
    source_tokenizer: Tokenizer | None = None
    buckets: int = 6

    unused: ClassVar = ("chunking", "objective")

    def check(self) -> None:
        require(self.buckets > 0, f"buckets must be at least 1, got {self.buckets}")

    def codec(self, data: Data) -> Codec:
        return self._codec(data, self.texts("train", data))

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        require(
            config.model.encoder is not None,
            "data.source=pairs needs a model with an encoder: set model.encoder.num_layers, or use presets.transformer",
        )
        train = self.texts("train", config.data)
        codec = self._codec(config.data, train) if saved is None else saved
        config.with_vocab(*codec.sizes)
        texts: dict[Split, list[Pair] | None] = {
            "train": train,
            "validation": self.texts("validation", config.data),
            "test": self.texts("test", config.data) or None,
        }
        rows = partial(PairExamples.of, codec, config.context)
        return Dataset(codec, *in_widths_of_training(texts, self.buckets, rows))  # type: ignore[arg-type]

    def texts(self, split: Split, data: Data) -> list[Pair]:
        """The pairs of a split, as text; none where there is no test."""
        if self.name in corpora.CORPORA:
            return list(self._of_corpus(corpora.CORPORA[self.name], split, data))
        path = Path(self.name).expanduser()
        if path.is_dir():
            return self._of_folder(path, split)
        if path.suffix == ".tsv" and path.is_file():
            return cut(self._of_table(path), split, data)
        names = [name for name, corpus in corpora.CORPORA.items() if corpus.pairs]
        raise ConfigError(
            f"data.source.pairs.name={self.name!r} is neither a corpus of pairs ({', '.join(names)}) nor an existing "
            f"folder or .tsv file{nearest(self.name, names)}"
        )

    def _codec(self, data: Data, pairs: Sequence[Pair]) -> Codec:
        """One vocabulary for both languages, or one for each."""
        if self.source_tokenizer is None:
            return ended("data.tokenizer", data.tokenizer, (text for pair in pairs for text in pair))
        codec = ended("data.tokenizer", data.tokenizer, (target for _, target in pairs))
        path = "data.source.pairs.source_tokenizer"
        return codec.with_source(ended(path, self.source_tokenizer, (source for source, _ in pairs)))

    def _of_corpus(self, corpus: corpora.Corpus, split: Split, data: Data) -> Iterator[Pair]:
        if not corpus.pairs:
            raise ConfigError(f"data.source.pairs.name={self.name!r} holds {corpus.what}, not pairs of sentences")
        names = corpus.pairs.get(split)
        if names is None and "all" in corpus.pairs:
            (name,) = corpus.pairs["all"]
            yield from cut(self._of_table(corpora.locate(corpus.name, name)), split, data)
        elif names is not None:
            pair = [corpora.locate(corpus.name, name.format(language)) for name in names for language in self.languages]
            yield from _side_by_side(*pair)

    @property
    def languages(self) -> Pair:
        return self.source, self.target

    def _of_folder(self, path: Path, split: Split) -> list[Pair]:
        for name in NAMES[split]:
            files = [path / f"{name}.{language}{end}" for end in ("", ".gz") for language in self.languages]
            for two in (files[:2], files[2:]):
                if all(file.is_file() for file in two):
                    return list(_side_by_side(*two))
        require(
            split == "test",
            f"data.source.pairs.name: folder {path} holds no {NAMES[split][0]}.{self.source} beside "
            f"{NAMES[split][0]}.{self.target}",
        )
        return []

    def _of_table(self, path: Path) -> Iterator[Pair]:
        for number, line in enumerate(lines_of(file_text(path)), 1):
            columns = line.split("\t")
            try:
                yield columns[int(self.source)].strip(), columns[int(self.target)].strip()
            except (ValueError, IndexError):
                raise ConfigError(
                    f"{path}, line {number} has {len(columns)} columns: data.source.pairs.source and target are the "
                    f"numbers of two of them, from 0, got {self.source!r} and {self.target!r}"
                ) from None


def ended(path: str, tokenizer: Tokenizer, texts: Iterable[str]) -> Codec:
    """The codec of a tokenizer; ConfigError where it has no end of a text."""
    codec = tokenizer.build(texts)
    require(
        codec.separator is not None,
        f"{path}={tokenizer.kind} has no end of a text, which pairs need: use bpe or words",
    )
    return codec


def _side_by_side(source: Path, target: Path) -> Iterator[Pair]:
    one, other = lines_of(file_text(source)), lines_of(file_text(target))
    if len(one) != len(other):
        raise ConfigError(
            f"{source} has {len(one)} lines and {target} has {len(other)}: a line is a pair, make them even"
        )
    return zip((line.strip() for line in one), (line.strip() for line in other), strict=True)


def cut(pairs: Iterable[Pair], split: Split, data: Data) -> list[Pair]:
    """The pairs of a split, by the shares of the config: a source sentence falls where the hash of its text does, so
    that all translations of one are in one split, and more pairs move none.
    """

    def side(text: str) -> Split:
        place = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64
        return "train" if place >= data.validation + data.test else "validation" if place >= data.test else "test"

    return [pair for pair in pairs if side(pair[0]) == split]


class Report(NamedTuple):
    """pairs: read. left_out, cut: for being longer than the context, in training and outside of it."""

    pairs: int
    left_out: int
    cut: int
    tokens: int
    targets: int
    widths: tuple[int, ...]
    real_share: float

    def __str__(self) -> str:
        return (
            f"{self.pairs:,} pairs, {self.left_out:,} left out and {self.cut:,} cut for their length: {self.tokens:,} "
            f"tokens of source, {self.targets:,} targets, {self.real_share:.1%} of the positions, in rows of "
            f"{', '.join(map(str, self.widths))}"
        )


class PairExamples:
    """A split of pairs, the shortest first: Examples, see txjax.data.dataset.

    sources, targets: the ids of all rows, end to end, each row closed by the end id; row i is
    sources[starts[0][i] : starts[0][i + 1]], and so on. first: what a decoder reads before any target.
    """

    endless = renewed = False
    fields = ("tokens", "targets", "weights", "segments", "source", "source_segments")

    def __init__(
        self, rows: list[tuple[np.ndarray, np.ndarray]], context: int, widths: tuple[int, ...], first: int
    ) -> None:
        self.context, self.widths, self.first = context, widths, first
        lengths = np.array([[len(source), len(target)] for source, target in rows]).reshape(-1, 2)
        self.width = np.array(widths)[np.searchsorted(widths, lengths.max(1))]
        order = np.lexsort((lengths[:, 1], lengths[:, 0], self.width))
        self.width, lengths = self.width[order], lengths[order]
        self.flat = [np.concatenate([rows[i][side] for i in order]) for side in (0, 1)]
        self.starts = [np.concatenate([[0], np.cumsum(lengths[:, side])]) for side in (0, 1)]

    @classmethod
    def of(cls, codec: Codec, context: int, pairs: Sequence[Pair], split: Split, widths: Widths) -> PairExamples:
        end = np.array([codec.end], np.int32)
        first, *forced = codec.start
        before = np.array(forced, np.int32)
        rows = [
            (codec.reader.source_ids(source), np.concatenate([before, codec.encode(target), end]))
            for source, target in pairs
        ]
        long = [max(map(len, row)) > context for row in rows]
        if split == "train":
            rows = [row for row, too_long in zip(rows, long, strict=True) if not too_long]
        else:
            rows = [
                tuple(side if len(side) <= context else np.append(side[: context - 1], side[-1]) for side in row)
                for row in rows
            ]
        require(
            bool(rows),
            f"data.source: no pair of the {split} split is at most data.context={context} tokens long: choose a longer "
            "context",
        )
        lengths = np.array([max(map(len, row)) for row in rows])
        found = cls(rows, context, fitting(lengths, widths, context), first)  # type: ignore[arg-type]
        left_out, shortened = (sum(long), 0) if split == "train" else (0, sum(long))
        tokens, targets = (len(flat) for flat in found.flat)
        share = (tokens + targets) / (2 * int(found.width.sum()))
        found.report = Report(len(pairs), left_out, shortened, tokens, targets, found.widths, share)
        return found

    report: Report | None = None

    @property
    def buckets(self) -> Buckets:
        return Buckets.of(self.width, filled=True)

    def __len__(self) -> int:
        return len(self.width)

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        """Rows as wide as the widest of them."""
        width = int(self.width[np.minimum(indices, len(self) - 1)].max())
        source, source_segments = self._padded(0, indices, width)
        targets, segments = self._padded(1, indices, width)
        tokens = np.concatenate([np.full((len(indices), 1), self.first), targets[:, :-1]], 1) * segments
        arrays = {
            "tokens": tokens,
            "targets": targets,
            "weights": segments,
            "segments": segments,
            "source": source,
            "source_segments": source_segments,
        }
        return {name: array.astype(DTYPES.get(name, np.int32)) for name, array in arrays.items()}

    def _padded(self, side: int, indices: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of one side, and 1 where they are real; nothing is in a row past the last."""
        starts, flat = self.starts[side], self.flat[side]
        first = starts[np.minimum(indices, len(self))]
        length = starts[np.minimum(indices + 1, len(self))] - first
        real = np.arange(width) < length[:, None]
        places = np.minimum(first[:, None] + np.arange(width), len(flat) - 1)
        return np.where(real, flat[places], 0), real.astype(np.int32)

    def for_seed(self, seed: int) -> Self:
        return self

    def contents(self) -> Iterator[memoryview]:
        arrays = (*self.flat, *self.starts, self.width)
        return (np.ascontiguousarray(array).data for array in arrays)

    def target_bytes(self, codec: Codec) -> int:
        return int(codec.byte_lengths()[self.flat[1]].sum())

    def target_entropy(self) -> float:
        counts = np.bincount(self.flat[1])
        shares = counts[counts > 0] / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    def show(self, index: int, codec: Codec) -> list[str]:
        row = self.gather(np.array([index]))
        sides = (
            (codec.reader, row["source"], row["source_segments"]),
            (codec, row["targets"], row["segments"]),
        )
        return [repr(one.decode(ids[0][real[0] > 0])) for one, ids, real in sides]
