"""The rest of a text, from a beginning that is read both ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from txjax.config.model import Model
from txjax.data.codec import Codec
from txjax.data.objective import Arrays, Drawn, Rows, require_whole_rows, require_writer
from txjax.data.sequences import PLAIN, Sequences


@dataclass(frozen=True)
class Prefix(Drawn, kind="prefix"):
    """The first P tokens of a row see one another, all others those before them; from the P-th on each predicts the
    next. P is uniform in 1 ... n of a row of n tokens. Liu et al. 2018; Raffel et al. 2020, section 3.2.
    """

    spells: ClassVar[bool] = True

    def validate(self, model: Model) -> None:
        require_writer(self, model)

    def judge(self, rows: Sequences) -> None:
        require_whole_rows(self, rows)

    def fields(self, rows: Sequences) -> tuple[str, ...]:
        return (*PLAIN, "segments", "prefix")

    def make(self, rows: Rows) -> Arrays:
        tokens, targets, segments = rows.read("tokens", "targets", "segments")
        length = (segments > 0).sum(1, keepdims=True)
        prefix = np.where(length > 0, 1 + rows.draws.below(length, 1), 0)
        weights = (segments > 0) & (np.arange(tokens.shape[1]) >= prefix - 1)
        return {
            "tokens": tokens,
            "targets": np.where(weights, targets, 0),
            "weights": weights,
            "segments": segments,
            "prefix": prefix[:, 0],
        }

    def show(self, row: Arrays, codec: Codec) -> list[str]:
        seen, written = row["tokens"][: int(row["prefix"])], row["targets"][row["weights"] > 0]
        return [f"reads  {codec.decode(seen)!r}", f"writes {codec.decode(written)!r}"]
