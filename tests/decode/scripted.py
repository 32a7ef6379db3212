"""A model whose every word is known: it says a text by heart, chosen by the first id of the prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from txjax.batch import Batch

LONGEST = 300


class Place(NamedTuple):
    """The cache: which text each row says, and how far it has read."""

    text_B: jax.Array
    length_B: jax.Array


class Scripted:
    """After n tokens of a row that began with id t, the likeliest next one is texts[t][n]; all others are equal.

    It says a text again once it has come to its end. It keeps the part of the Model contract that decoding needs.
    certainty: how far the likeliest logit lies above the others. stepped: called, on the host, once a step.
    """

    def __init__(
        self,
        texts: dict[int, list[int]],
        vocab: int,
        *,
        certainty: float = 1.0,
        stepped: Callable[[], None] | None = None,
    ) -> None:
        self.table = np.zeros((vocab, LONGEST), np.int32)
        for first, text in texts.items():
            self.table[first] = np.resize(text, LONGEST)
        self.vocab, self.certainty, self.stepped = vocab, certainty, stepped

    def prefill(self, params: Any, batch: Batch, cache_len: int) -> tuple[jax.Array, Place]:
        length_B = (jnp.asarray(batch.segments) > 0).sum(1)
        place = Place(jnp.asarray(batch.tokens)[:, 0], length_B)
        return self.logits(place), place

    def step(self, params: Any, tokens: jax.Array, cache: Place) -> tuple[jax.Array, Place]:
        if self.stepped is not None:
            jax.debug.callback(self.stepped)
        place = Place(cache.text_B, cache.length_B + 1)
        return self.logits(place), place

    def rows(self, cache: Place, rows_B: jax.Array) -> Place:
        return Place(cache.text_B[rows_B], cache.length_B[rows_B])

    def logits(self, place: Place) -> jax.Array:
        likeliest_B = jnp.asarray(self.table)[place.text_B, place.length_B]
        return 1.0 + self.certainty * jax.nn.one_hot(likeliest_B, self.vocab, dtype=jnp.float32)
