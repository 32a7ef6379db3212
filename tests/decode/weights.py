"""Weights with which one token follows another."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.config import Model
from txjax.models import Decoder
from txjax.nn.parameters import is_spec


@cache
def parameters(model: Model, spread: float = 0.5) -> Any:
    """A spread around what each is initialised to, where all logits are near zero."""
    random = np.random.default_rng(0)

    def draw(spec: Any) -> jax.Array:
        return jnp.asarray(spec.mean + spread * random.standard_normal(spec.value.shape), jnp.float32)

    return jax.tree.map(draw, Decoder(model).specs, is_leaf=is_spec)
