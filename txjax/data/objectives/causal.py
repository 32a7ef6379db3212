"""The next token."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.config.data import Objective, Split
from txjax.config.model import Model
from txjax.data.codec import Codec
from txjax.data.objective import require_writer
from txjax.data.sequences import Sequences


@dataclass(frozen=True)
class Causal(Objective, kind="causal"):
    """Each token from those before it: sum over t of -log p(x_{t+1} | x_1 ... x_t), over the rows as chunking made
    them.
    """

    def validate(self, model: Model) -> None:
        require_writer(self, model)

    def examples(self, rows: Sequences, codec: Codec, split: Split, context: int) -> Sequences:
        return rows
