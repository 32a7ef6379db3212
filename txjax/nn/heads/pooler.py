"""One vector a row: how it is taken from the states of the tokens, and BERT's pooler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.heads.none import NoHeadModule
from txjax.nn.linear import Linear

Pool = Literal["first", "mean", "last"]


def pool(x_BTD: Float[Array, "B T D"], segments_BT: Int[Array, "B T"] | None, how: Pool) -> Float[Array, "B 1 D"]:
    """The state of the first or of the last real token of each row, or the mean over its real tokens; zeros where a row
    has none and a mean is asked for.

    segments_BT: 0 where a token is padding, on whichever side; None: all are real.
    """
    B, T, _ = x_BTD.shape
    real_BT = jnp.ones((B, T), bool) if segments_BT is None else jnp.asarray(segments_BT) > 0
    if how == "mean":
        share_BT = real_BT / jnp.maximum(real_BT.sum(1, keepdims=True), 1)
        wide_BTD = jnp.where(real_BT[..., None], x_BTD, 0).astype(jnp.float32)  # padding may hold anything
        return jnp.einsum("BTD,BT->BD", wide_BTD, share_BT)[:, None].astype(x_BTD.dtype)
    place_B = jnp.argmax(real_BT, 1) if how == "first" else T - 1 - jnp.argmax(real_BT[:, ::-1], 1)
    return jnp.take_along_axis(x_BTD, place_B[:, None, None], axis=1)


class Pooler(nn.Module):
    """tanh(x W + b) of each row's first token, [B, 1, D], or of the vector that `how` takes."""

    model: Model
    how: Pool = "first"

    @nn.compact
    def __call__(self, x_BTD: Float[Array, "B T D"], segments_BT: Array | None) -> Float[Array, "B 1 D"]:
        D = self.model.width
        dense = Linear(self.model, (D, D), ("embed", "mlp"), bias=True, name="dense")
        return jnp.tanh(dense(pool(x_BTD, segments_BT, self.how)))


@dataclass(frozen=True)
class PoolerHead(Head, kind="pooler"):
    """tanh(x W + b) of each row's first token, one vector a row: what BERT makes of a sequence. Devlin et al. 2019."""

    generates: ClassVar[bool] = False

    def module(self, model: Model, name: str) -> NoHeadModule:
        return NoHeadModule(name=name)

    def read(self, model: Model, x_BTD: Array, batch: Batch, context: Any) -> Array:
        return Pooler(model, name="pooler")(x_BTD, batch.segments)
