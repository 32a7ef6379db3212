"""Pointwise nonlinearities by the names that configs use, and which of them are gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array


def gating(function: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """f(gate) x, Shazeer 2020."""
    return lambda gate, x: function(gate) * x


def clamped_swiglu(gate: Array, x: Array) -> Array:
    """g sigmoid(1.702 g) (u + 1), for g = min(gate, 7) and u = x within -7 and 7: no entry exceeds 56, and the factor
    is 1 where x is 0. g sigmoid(1.702 g) is nearly GELU. OpenAI 2025 (the code of gpt-oss).
    """
    g, u = jnp.minimum(gate, 7.0), jnp.clip(x, -7.0, 7.0)
    return g * jax.nn.sigmoid(1.702 * g) * (u + 1.0)


Plain = Literal["relu", "gelu", "gelu_tanh"]  # of a head's own map
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh", "swiglu_clamped"]
# name: (function, gated); a gated one is f(x W_gate, x W_in), another f(x W_in)
ACTIVATIONS: dict[str, tuple[Callable[..., Array], bool]] = {
    "relu": (jax.nn.relu, False),
    "gelu": (partial(jax.nn.gelu, approximate=False), False),
    "gelu_tanh": (partial(jax.nn.gelu, approximate=True), False),
    "silu": (jax.nn.silu, False),
    "swiglu": (gating(jax.nn.silu), True),
    "geglu": (gating(partial(jax.nn.gelu, approximate=False)), True),
    "geglu_tanh": (gating(partial(jax.nn.gelu, approximate=True)), True),
    "swiglu_clamped": (clamped_swiglu, True),
}
