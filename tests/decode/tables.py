"""A model that is two tables: the next id's logits by the last two ids, and by the length of the text."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from txjax.batch import Batch


class Seen(NamedTuple):
    """The cache: the last two ids of each row, and its length. A row that is taken for another goes astray."""

    last_B2: jax.Array
    length_B: jax.Array


class Tables:
    """The part of the Model contract that decoding needs; prompts have two ids or more."""

    def __init__(self, by_last: Any, by_length: Any) -> None:
        self.by_last, self.by_length = np.asarray(by_last, np.float32), np.asarray(by_length, np.float32)

    def prefill(self, params: Any, batch: Batch, cache_len: int) -> tuple[jax.Array, Seen]:
        length_B = (jnp.asarray(batch.segments) > 0).sum(1)
        places_B2 = length_B[:, None] - jnp.array([2, 1])
        seen = Seen(jnp.take_along_axis(jnp.asarray(batch.tokens), places_B2, axis=1), length_B)
        return self.logits(seen), seen

    def step(self, params: Any, tokens: jax.Array, cache: Seen) -> tuple[jax.Array, Seen]:
        seen = Seen(jnp.stack([cache.last_B2[:, 1], tokens], axis=1), cache.length_B + 1)
        return self.logits(seen), seen

    def rows(self, cache: Seen, rows_B: jax.Array) -> Seen:
        return Seen(cache.last_B2[rows_B], cache.length_B[rows_B])

    def logits(self, seen: Seen) -> jax.Array:
        one_B, two_B = seen.last_B2.T
        period = len(self.by_length)
        return jnp.asarray(self.by_last)[one_B, two_B] + jnp.asarray(self.by_length)[seen.length_B % period]
