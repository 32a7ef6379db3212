"""Dropout with a rate that may be traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def dropout(x: Float[Array, "*A"], key: Array, rate: float | Float[Array, ""]) -> Float[Array, "*A"]:
    """x / (1 - rate) where a uniform draw is below 1 - rate, else 0. Srivastava et al. 2014.

    A traced rate pays for the draw even at 0: leave the call out where dropout is off.
    """
    keep = 1.0 - jnp.asarray(rate, jnp.float32)
    return jnp.where(jax.random.uniform(key, x.shape) < keep, x / keep.astype(x.dtype), jnp.zeros((), x.dtype))
