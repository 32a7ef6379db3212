"""A learned bias for each head and each range of distances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.masks import Bias, Keys
from txjax.ops.positions.base import Position, Table
from txjax.ops.pytree import pytree, static
from txjax.schema import require


def relative_bucket(distance: Int[Array, ...], *, buckets: int, max_distance: int, both_sides: bool) -> Int[Array, ...]:
    """The bucket of a distance, key - query: one for each small distance, then ranges that grow geometrically up to
    max_distance, and one for all beyond.

    both_sides: half of the buckets are for keys after the query; else those fall into bucket 0. Of the n buckets of a
    side the first n/2 are exact; distance d >= n/2 has n/2 + floor(n/2 log(d / (n/2)) / log(max_distance / (n/2))).
    Raffel et al. 2020, section 2.1, and the authors' code.
    """
    start = jnp.zeros_like(distance)
    back = -distance
    if both_sides:
        buckets //= 2
        start = jnp.where(back < 0, buckets, 0)
        back = jnp.abs(back)
    back = jnp.maximum(back, 0)
    exact = buckets // 2
    far = jnp.log(jnp.maximum(back, exact).astype(jnp.float32) / exact) / math.log(max_distance / exact)
    far = exact + (far * (buckets - exact)).astype(jnp.int32)
    return start + jnp.where(back < exact, back, jnp.minimum(far, buckets - 1))


@pytree
class BucketBias(Bias):
    """table[bucket(key - query)] for each head."""

    table_RN: Float[Array, "R N"]
    max_distance: int = static()
    both_sides: bool = static()

    def __call__(self, query_BT: Int[Array, "#B T"], key_S: Keys) -> Float[Array, "#B N T S"]:
        distance_BTS = key_S[..., None, :] - query_BT[:, :, None]
        buckets, most = self.table_RN.shape[0], self.max_distance
        bucket_BTS = relative_bucket(distance_BTS, buckets=buckets, max_distance=most, both_sides=self.both_sides)
        return jnp.moveaxis(self.table_RN[bucket_BTS].astype(jnp.float32), -1, 1)


@dataclass(frozen=True)
class Relative(Position, kind="relative"):
    """Scores plus table[bucket(distance)], a learned table of `buckets` rows and a column a head, one for all layers of
    a stack. See relative_bucket. Raffel et al. 2020 (T5).
    """

    buckets: int = 32
    max_distance: int = 128

    def check(self) -> None:
        require(self.buckets >= 4 and self.buckets % 2 == 0, f"buckets must be even, at least 4, got {self.buckets}")
        require(
            self.max_distance > self.buckets // 2,
            f"max_distance must exceed buckets/2={self.buckets // 2}, got {self.max_distance}",
        )

    def tables(self, *, context: int, width: int, num_heads: int) -> dict[str, Table]:
        return {"bias": ((self.buckets, num_heads), ("buckets", "heads"))}

    def bias(self, num_heads: int, tables: Mapping[str, Array], *, causal: bool) -> Bias:
        return BucketBias(tables["bias"], self.max_distance, both_sides=not causal)
