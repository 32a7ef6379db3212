"""Patches of images, or other vectors, projected to the model's width."""

from __future__ import annotations

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.config.model import Model
from txjax.config.parts import Embedding
from txjax.nn.linear import Linear, Table
from txjax.schema import require


@dataclass(frozen=True)
class Patches(Embedding, kind="patches"):
    """x W + b of each patch in batch.tokens, float32 [B, T, size]: channels x side x side numbers, a channel after the
    other, row after row. Dosovitskiy et al. 2021, section 3.1.

    side: pixels a side of a patch. channels: numbers in a pixel.
    class_token: a learned vector before each row. It is position 0: T patches have T + 1 positions, and a position
        table one row more than model.context.
    """

    side: int = 4
    channels: int = 1
    class_token: bool = False

    reads = "vectors"

    def check(self) -> None:
        for name in ("side", "channels"):
            require(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")

    def validate(self, model: Model) -> None:
        require(model.encoder is None, "embedding=patches is of a model that reads images: set encoder to none")

    @property
    def size(self) -> int:
        """Numbers in a patch."""
        return self.channels * self.side**2

    @property
    def added(self) -> int:
        return int(self.class_token)

    def tokens(self, rows: int, length: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((rows, length, self.size), jnp.float32)

    def module(self, model: Model, name: str) -> PatchesModule:
        return PatchesModule(self, model, name=name)


class PatchesModule(nn.Module):
    patches: Patches
    model: Model

    @nn.compact
    def __call__(self, batch: Batch, table_VD: None = None) -> tuple[Float[Array, "B T D"], None]:
        own, model = self.patches, self.model
        # apart, as a convolution has them: the shape says what a patch is
        patch = (own.channels, own.side, own.side)
        axes = ("channels", "rows", "columns", "embed")
        project = Linear(model, (*patch, model.width), axes, contract=3, bias=True, name="project")
        x_BTD = project(jnp.asarray(batch.tokens, model.dtype).reshape(*batch.tokens.shape[:2], *patch))
        if own.class_token:
            first_1D = Table(model, (1, model.width), ("context", "embed"), leaf="vector", name="class_token")()
            first_B1D = jnp.broadcast_to(first_1D.astype(x_BTD.dtype), (x_BTD.shape[0], 1, model.width))
            x_BTD = jnp.concatenate([first_B1D, x_BTD], axis=1)
        return x_BTD, None
