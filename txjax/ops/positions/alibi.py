"""A linear penalty on distance, with a slope for each head."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.masks import Bias, Keys
from txjax.ops.positions.base import Position
from txjax.ops.pytree import pytree


def alibi_slopes(num_heads: int) -> list[float]:
    """2^(-8 i / n) for heads i = 1 .. n where n is a power of two.

    Other counts take the slopes of the power of two below, then every second one of the power above. Press et al.
    2022, and the rule for other counts from the authors' code.
    """
    below = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    above = [2 ** (-8 * i / (2 * below)) for i in range(1, 2 * below + 1)]
    return slopes + above[::2][: num_heads - below]


@pytree
class DistancePenalty(Bias):
    """-slope |query - key|, a slope for each head."""

    slopes_N: Float[Array, " N"]

    def __call__(self, query_BT: Int[Array, "#B T"], key_S: Keys) -> Float[Array, "#B N T S"]:
        distance_BTS = jnp.abs(query_BT[:, :, None] - key_S[..., None, :]).astype(jnp.float32)
        return -self.slopes_N[:, None, None] * distance_BTS[:, None]


@dataclass(frozen=True)
class Alibi(Position, kind="alibi"):
    """Scores less slope times distance, for any number of heads. Press et al. 2022."""

    def bias(self, num_heads: int, tables: Mapping[str, Array], *, causal: bool) -> Bias:
        return DistancePenalty(jnp.array(alibi_slopes(num_heads), jnp.float32))
