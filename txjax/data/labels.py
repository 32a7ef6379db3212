"""Texts with a label each, from tables and from the named corpora."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from txjax.config.data import Split
from txjax.data import corpora
from txjax.data.reading import file_text
from txjax.schema import ConfigError, nearest

SUFFIXES = (".tsv", ".csv", ".jsonl")


class Example(NamedTuple):
    text: str
    label: str


class Published(NamedTuple):
    """A named corpus: the file of each split, and of a .zip the members that hold it; those of "all" have no split.

    labels: names for the labels that the file has; {} its own. reader: how a line says text and label.
    """

    corpus: str
    splits: dict[Split | str, tuple[str, ...]]
    reader: str
    labels: dict[str, str]


SENTIMENT = {"0": "negative", "1": "positive"}
NAMED = {
    "sst2": Published(
        "sst2", {"train": ("train.tsv",), "validation": ("dev.tsv",), "test": ("test.tsv",)}, "tab", SENTIMENT
    ),
    "mr": Published(
        "mr",
        {"all": ("sentence_polarity.zip", "rt-polarity.neg", "rt-polarity.pos")},
        "file",
        {"rt-polarity.neg": "negative", "rt-polarity.pos": "positive"},
    ),
    "subj": Published(
        "subj",
        {"all": ("subjectivity.zip", "plot.tok.gt9.5000", "quote.tok.gt9.5000")},
        "file",
        {"plot.tok.gt9.5000": "objective", "quote.tok.gt9.5000": "subjective"},
    ),
    "trec": Published("trec", {"train": ("qc.zip", "train.txt"), "test": ("qc.zip", "test.txt")}, "coarse", {}),
    "trec_fine": Published("trec", {"train": ("qc.zip", "train.txt"), "test": ("qc.zip", "test.txt")}, "fine", {}),
    "waimai": Published("zh_sentiment", {"all": ("waimai_10k.csv",)}, "csv", SENTIMENT),
    "chnsenticorp": Published("zh_sentiment", {"all": ("ChnSentiCorp_htl_all.csv",)}, "csv", SENTIMENT),
}


def published(name: str, split: str) -> list[Example] | None:
    """The examples of a named corpus' split, or with "all" those of one that has none; None where there are none."""
    corpus = NAMED[name]
    if split not in corpus.splits:
        return None
    file, *members = corpus.splits[split]
    path = corpora.locate(corpus.corpus, file)
    texts = _unzipped(path, members) if members else {file: path.read_text(encoding="utf-8-sig")}
    found = (example for member, text in texts.items() for example in _parsed(text, corpus.reader, member))
    return [Example(text, corpus.labels.get(label, label)) for text, label in found]


def _unzipped(path: Path, members: list[str]) -> dict[str, str]:
    """Members by their names; these archives are in Latin-1."""
    with zipfile.ZipFile(path) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        return {member: archive.read(names[member]).decode("latin-1") for member in members}


def _parsed(text: str, reader: str, member: str) -> Iterator[Example]:
    if reader == "csv":
        for row in csv.DictReader(io.StringIO(text)):
            if row["review"].strip():
                yield Example(row["review"].strip(), row["label"])
        return
    for line in filter(str.strip, text.split("\n")):
        if reader == "tab":
            said, _, label = line.rstrip("\r").rpartition("\t")
            yield Example(said, label)
        elif reader == "file":
            yield Example(line.strip(), member)
        else:  # TREC: COARSE:fine and the question
            label, _, said = line.strip().partition(" ")
            yield Example(said, label if reader == "fine" else label.partition(":")[0])


def read(path: Path, text: str, label: str) -> list[Example]:
    """The examples of a .tsv or .csv file, whose first line names its columns, or of a .jsonl file; text and label are
    the names of columns or fields. ConfigError with file and line for what is not so.
    """
    found = []
    for place, record in _records(path, file_text(path)):
        for name in (text, label):
            if name not in record or record[name] is None:
                field = "text" if name == text else "label"
                close = nearest(name, filter(None, record))
                raise ConfigError(f"{place} has no {name!r}{close}: set data.source.labelled.{field}")
        if not isinstance(record[text], str) or isinstance(record[label], (dict, list)):
            raise ConfigError(f"{place}: {text!r} must be text, and {label!r} the name or number of a class")
        found.append(Example(record[text], str(record[label])))
    if not found:
        raise ConfigError(f"{path} holds no example: remove it, or fill it")
    return found


def _records(path: Path, content: str) -> Iterator[tuple[str, dict]]:
    if path.suffix == ".jsonl":
        for number, line in enumerate(content.split("\n"), 1):
            if line.strip():
                yield f"{path}, line {number}", _object(line, f"{path}, line {number}")
    else:
        quoting = csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL
        delimiter = "\t" if path.suffix == ".tsv" else ","
        table = csv.DictReader(io.StringIO(content, newline=""), delimiter=delimiter, quoting=quoting)
        for record in table:
            yield f"{path}, line {table.line_num}", record


def _object(line: str, place: str) -> dict:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{place} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ConfigError(f"{place} must be an object, got {type(record).__name__}")
    return record
