"""Pointwise nonlinearities by the names that configs use, and which of them are gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
from jaxtyping import Array

# name: (function, gated); a gated one is f(x W_gate) * (x W_in), Shazeer 2020
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], bool]] = {
    "relu": (jax.nn.relu, False),
    "gelu": (partial(jax.nn.gelu, approximate=False), False),
    "gelu_tanh": (partial(jax.nn.gelu, approximate=True), False),
    "silu": (jax.nn.silu, False),
    "swiglu": (jax.nn.silu, True),
    "geglu": (partial(jax.nn.gelu, approximate=False), True),
    "geglu_tanh": (partial(jax.nn.gelu, approximate=True), True),
}
