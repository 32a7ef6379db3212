"""From logits to a token."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def filtered_logits(
    logits_BV: Float[Array, "B V"],
    *,
    temperature_B: Float[Array, "#B"],
    top_k: int | None = None,
    top_p: float | Float[Array, "#B"] | None = None,
) -> Float[Array, "B V"]:
    """logits / temperature with what is filtered out at -inf, in float32; softmax of it is what is drawn from.

    The order is temperature, then the k likeliest (all that tie with the k-th are kept), then the smallest set of
    the likeliest whose renormalised probabilities reach top_p (the likeliest always stays).
    A temperature of 0 leaves the argmax alone.
    """
    logits_BV = logits_BV.astype(jnp.float32)
    greedy_B1 = jnp.reshape(temperature_B, (-1, 1)) == 0
    cooled_BV = logits_BV / jnp.where(greedy_B1, 1.0, jnp.reshape(temperature_B, (-1, 1)))
    if top_k is not None:
        kth_B1 = jax.lax.top_k(cooled_BV, min(top_k, cooled_BV.shape[-1]))[0][:, -1:]
        cooled_BV = jnp.where(cooled_BV < kth_B1, -jnp.inf, cooled_BV)
    if top_p is not None:
        cooled_BV = _nucleus(cooled_BV, jnp.reshape(jnp.asarray(top_p, jnp.float32), (-1, 1)))
    best_BV = jnp.arange(logits_BV.shape[-1]) == jnp.argmax(logits_BV, -1)[:, None]
    return jnp.where(greedy_B1, jnp.where(best_BV, 0.0, -jnp.inf), cooled_BV)


def _nucleus(logits_BV: Array, p_B1: Array) -> Array:
    """-inf outside the smallest set of the likeliest tokens that reaches p. Holtzman et al. 2020."""
    order_BV = jnp.argsort(-logits_BV, axis=-1)
    probs_BV = jax.nn.softmax(jnp.take_along_axis(logits_BV, order_BV, axis=-1), axis=-1)
    before_BV = jnp.cumsum(probs_BV, axis=-1) - probs_BV  # what the likelier ones hold: below p, this one is needed
    kept_BV = (before_BV < p_B1).at[:, 0].set(True)
    rank_BV = jnp.argsort(order_BV, axis=-1)
    return jnp.where((p_B1 >= 1.0) | jnp.take_along_axis(kept_BV, rank_BV, axis=-1), logits_BV, -jnp.inf)


def sample(logits_BV: Float[Array, "B V"], keys_B: Array) -> Int[Array, " B"]:
    """One token a row from softmax(logits), each row by its own key."""
    return jax.vmap(jax.random.categorical)(keys_B, logits_BV).astype(jnp.int32)
