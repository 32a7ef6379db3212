"""Texts with a class each as a source: classification."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np

from txjax.config.data import Data, Source, Split
from txjax.data.annotated import Annotated, classes_of, require_outputs, splits, thinned
from txjax.data.buckets import Widths, in_widths_of_training
from txjax.data.codec import Codec
from txjax.data.dataset import Dataset
from txjax.data.labels import NAMED, SUFFIXES, Example, published, read
from txjax.schema import ConfigError, nearest, require

if TYPE_CHECKING:
    from txjax.config.root import Config


@dataclass(frozen=True)
class Labelled(Source, kind="labelled"):
    """name: sst2, mr, subj, trec (6 classes), trec_fine (50), waimai, chnsenticorp; or a .tsv, .csv or .jsonl file; or
        a folder with train.*, validation.* and perhaps test.* of these.
    text, label: the columns of such a file, or the fields of its lines.
    ends: cls_sep puts the ids for cls and sep around each text; none leaves it as it is.
    buckets: lengths that rows are padded to, made from those of training; each is a program of its own, and a batch has
        rows of one of them, which spares the work of padding; 1: data.context.

    The splits are the published ones, or the folder's; what has none is cut by data.validation and data.test, in an
    order by chance that is always the same. A row is the text's first data.context tokens; its target, [B, 1], is the
    number of the class among the names of those in training, sorted, which the run keeps beside its tokenizer.
    """

    name: str = "sst2"
    text: str = "text"
    label: str = "label"
    ends: Literal["cls_sep", "none"] = "cls_sep"
    buckets: int = 1

    unused: ClassVar = ("chunking", "objective")

    @classmethod
    def named(cls) -> Iterable[str]:
        return NAMED

    def check(self) -> None:
        require(self.buckets > 0, f"buckets must be at least 1, got {self.buckets}")

    def judge(self, config: Config, codec: Codec) -> None:
        require_outputs(config.model, codec.classes, one_a_row=True)

    def codec(self, data: Data) -> Codec:
        return self._codec(data, self.examples(data)["train"] or [])

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        examples = self.examples(config.data)
        codec = self._codec(config.data, examples["train"] or []) if saved is None else saved
        config.with_vocab(codec.vocab_size)
        return Dataset(codec, *in_widths_of_training(examples, self.buckets, partial(self._rows, codec, config)))  # type: ignore[arg-type]

    def examples(self, data: Data) -> dict[Split, list[Example] | None]:
        """The texts of each split with their labels; None where there is no test."""
        own = {split: self._own(split) for split in get_args(Split)}
        return splits(own, self._whole() if own["train"] is None else None, data, shuffled=True)

    def _codec(self, data: Data, train: list[Example]) -> Codec:
        roles = ("cls", "sep", "mask") if self.ends == "cls_sep" else ()  # those of a masked language model
        classes = tuple(sorted({label for _, label in train}))
        return data.tokenizer.build(text for text, _ in train).extended(roles, classes)

    def _rows(self, codec: Codec, config: Config, examples: list[Example], split: Split, widths: Widths) -> Annotated:
        room = config.context - (2 if self.ends == "cls_sep" else 0)
        require(room > 0, f"data.context={config.context} has no room for a text between its ends: choose at least 3")
        examples = examples if split == "train" else thinned(examples, config.data.held_out)
        ids = [codec.encode(text) for text, _ in examples]
        rows = [row[:room] for row in ids]
        if self.ends == "cls_sep":
            first, last = ([codec.specials[role]] for role in ("cls", "sep"))
            rows = [np.concatenate([first, row, last]) for row in rows]
        rows = [row if len(row) else codec.prompt("") for row in rows]
        targets = classes_of([label for _, label in examples], codec.classes, split)
        shortened = sum(len(row) > room for row in ids)
        return Annotated(rows, targets, config.context, codec.classes, shortened=shortened, widths=widths)

    def _own(self, split: Split) -> list[Example] | None:
        """A split that the corpus or the folder has itself."""
        if self.name in NAMED:
            return published(self.name, split)
        path = self._path()
        if not path.is_dir():
            return None
        files = [file for file in sorted(path.iterdir()) if file.stem == split and file.suffix in SUFFIXES]
        require(
            len(files) == 1 or (not files and split != "train"),
            f"{path} must have one of {', '.join(split + suffix for suffix in SUFFIXES)}, got {len(files)} of them",
        )
        return read(files[0], self.text, self.label) if files else None

    def _whole(self) -> list[Example]:
        """All of what has no training split of its own."""
        if self.name in NAMED:
            return published(self.name, "all") or []
        return read(self._path(), self.text, self.label)

    def _path(self) -> Path:
        path = Path(self.name).expanduser()
        if not (path.is_dir() or (path.is_file() and path.suffix in SUFFIXES)):
            raise ConfigError(
                f"data.source.labelled.name={self.name!r} is neither a corpus ({', '.join(NAMED)}) nor an existing "
                f"folder or {', '.join(SUFFIXES)} file{nearest(self.name, NAMED)}"
            )
        return path
