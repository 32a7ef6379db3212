"""The tokenizer of another run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txjax.config.data import Tokenizer
from txjax.data.codec import FILE, Codec, load_codec
from txjax.schema import require


@dataclass(frozen=True)
class Saved(Tokenizer, kind="saved"):
    """What the run in `folder` reads with, special ids included: to go on from its weights with other data."""

    folder: str = ""

    def build(self, documents: Iterable[str]) -> Codec:
        require(bool(self.folder), "data.tokenizer.saved.folder is empty: set it to the folder of a run")
        folder = Path(self.folder).expanduser()
        return load_codec(folder if (folder / FILE).is_file() else folder / "tokenizer")

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Codec:
        raise ValueError("a codec is saved under the kind that made it")
