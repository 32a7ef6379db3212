"""The head of a discriminator, which says of each token whether another one stood in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.linear import Linear
from txjax.ops.activations import ACTIVATIONS, Plain


@dataclass(frozen=True)
class Replaced(Head, kind="replaced"):
    """Logits 0 and f(hidden W + b) w + c of each token, of the classes 0, as it was, and 1, replaced: their softmax is
    (1 - p, p) for p the sigmoid of the second, so the loss of two classes is that of p. Clark et al. 2020, section 2.
    """

    activation: Plain = "gelu"

    outputs: ClassVar[int] = 2
    generates: ClassVar[bool] = False

    def module(self, model: Model, name: str) -> ReplacedModule:
        return ReplacedModule(self, model, name=name)


class ReplacedModule(nn.Module):
    head: Replaced
    model: Model

    @nn.compact
    def __call__(self, hidden: Float[Array, "... D"], table_VD: Array | None) -> Float[Array, "... 2"]:
        D = self.model.width
        function, _ = ACTIVATIONS[self.head.activation]
        hidden = function(Linear(self.model, (D, D), ("embed", "mlp"), bias=True, name="dense")(hidden))
        logit = Linear(self.model, (D, 1), ("embed", "classes"), bias=True, name="score")(hidden)
        return jnp.concatenate([jnp.zeros_like(logit), logit], axis=-1)
