"""No head: the hidden states themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Head


@dataclass(frozen=True)
class NoHead(Head, kind="none"):
    """What stands for logits are the hidden states: of an encoder, or of a model that makes embeddings."""

    generates: ClassVar[bool] = False

    def module(self, model: Model, name: str) -> NoHeadModule:
        return NoHeadModule(name=name)


class NoHeadModule(nn.Module):
    def __call__(self, hidden: Float[Array, "... D"], table_VD: Array | None) -> Float[Array, "... D"]:
        return hidden
