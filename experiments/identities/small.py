"""What the checks share: a small decoder of visible weights, and how far two arrays are apart."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.batch import Batch
from txjax.config import Attention, Model
from txjax.models import Decoder
from txjax.nn.initialisations import FanIn
from txjax.ops.positions import Rope

# jax.jit without the optimisations that cost most of a small program's time to compile
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})

FLOAT32 = "float32 keeps 6e-8 of a number, and errors of two layers add up"
LENGTH, VOCAB = 12, 16
TOKENS = jnp.asarray(np.random.default_rng(0).permutation(VOCAB)[:LENGTH])[None]


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


def decoder(**changes: Any) -> Decoder:
    """Two layers of width 16 with two heads, and rotary positions, unless something is changed."""
    sizes: dict[str, Any] = {"width": 16, "num_layers": 2, "vocab_size": VOCAB, "context": 2 * LENGTH}
    kinds: dict[str, Any] = {"attention": Attention(num_heads=2), "position": Rope(), "init": FanIn(), "remat": "none"}
    return Decoder(Model(**sizes | kinds | changes))


@cache
def parameters(model: Decoder) -> Any:
    return quick(model.init)(jax.random.key(0))


def logits(model: Decoder, batch: Batch) -> jax.Array:
    return quick(lambda params, batch: model.apply(params, batch).logits)(parameters(model), batch)


def off(got: Any, want: Any) -> float:
    """The largest difference, over the largest number of what is wanted."""
    want = np.asarray(want, np.float64)
    return float(np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max())
