"""What the contract tests share: weights and tokens that make differences visible, and cheap ways to run a model."""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from variants import LENGTH, VOCAB

from txjax.batch import Batch
from txjax.config import Model
from txjax.models.decoder import Decoder
from txjax.nn.parameters import is_spec, path_name

# float32 keeps 6e-8; sums of up to 128 terms in another order, through four layers, were seen to differ by 1e-6 of the
# largest logit. bfloat16 keeps 4e-3.
TOLERANCE = {"float32": 1e-5, "bfloat16": 5e-2}

# No token comes twice, so that a gradient with respect to a token's embedding is that of one place.
TOKENS = jnp.asarray(np.random.default_rng(0).permutation(VOCAB).reshape(-1, LENGTH), jnp.int32)
# One shape for as many passes as can be: operations are compiled once for each shape.
ROWS = Batch(tokens=TOKENS)
BATCH = Batch(tokens=TOKENS, targets=TOKENS[:, ::-1])

decoder = cache(Decoder)  # it reads its declarations once


@cache
def parameters(model: Model) -> Any:
    """Weights with a spread of 0.2 around what each is initialised to, biases and gains too: at initialisation scores
    are near zero and biases are zero, and much would go unseen. A leaf's values depend on its path and shape alone.
    """

    def draw(path: tuple[Any, ...], spec: Any) -> jax.Array:
        random = np.random.default_rng(zlib.crc32(path_name(path).encode()))
        return jnp.asarray(spec.mean + 0.2 * random.standard_normal(spec.value.shape), jnp.float32)

    return jax.tree_util.tree_map_with_path(draw, decoder(model).specs, is_leaf=is_spec)


@cache
def logits(model: Model, length: int = LENGTH) -> np.ndarray:
    """Logits of the first tokens of all rows."""
    return run(model, Batch(tokens=TOKENS[:, :length]))


def reads_each(model: Model) -> bool:
    """Whether its head makes something of each token, and not of one vector a row."""
    return logits(model).shape[1] == LENGTH


def run(model: Model, batch: Batch, params: Any = None) -> np.ndarray:
    """Logits, each operation by itself: there is no program to compile, and layers are a Python loop."""
    with jax.disable_jit():
        return np.asarray(plain(model).apply(parameters(model) if params is None else params, batch).logits)


def plain(model: Model) -> Decoder:
    """The decoder without rematerialisation, which is about programs."""
    return decoder(replace(model, remat="none"))


def assert_close(got: Any, want: Any, tolerance: float) -> None:
    """Equal up to `tolerance` times the largest entry of `want`, over all leaves of a tree."""
    got, want = jax.tree.leaves(got), jax.tree.leaves(want)
    assert len(got) == len(want)
    largest = max(float(np.abs(np.asarray(w, np.float64)).max(initial=0)) for w in want)
    for one, other in zip(got, want, strict=True):
        assert np.shape(one) == np.shape(other)
        off = np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max(initial=0)
        assert off <= tolerance * max(largest, 1e-3), f"off by {off:.3g} where the largest entry is {largest:.3g}"


def compiled(function: Any, *arguments: Any) -> Any:
    """The function's program."""
    return jax.jit(function).trace(*arguments).lower().compile()


def mean_loss(model: Model) -> Any:
    def loss(params: Any) -> jax.Array:
        outputs = decoder(model).apply(params, BATCH)
        loss = optax.softmax_cross_entropy_with_integer_labels(outputs.logits, BATCH.targets).mean()
        return loss + sum(outputs.aux.values()) / BATCH.targets.size

    return loss


@cache
def gradient(model: Model) -> Any:
    """Loss and gradient, operation by operation, each layer by itself and nothing computed twice."""
    with jax.disable_jit():
        return jax.value_and_grad(mean_loss(replace(model, remat="none")))(parameters(model))


def primitives(jaxpr: Any) -> list[str]:
    """Names of all operations of a program, those of inner programs included."""
    names = []
    for eqn in jaxpr.eqns:
        names.append(eqn.primitive.name)
        for inner in jax.tree.leaves(list(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            names += primitives(inner) if hasattr(inner, "eqns") else []
    return names
