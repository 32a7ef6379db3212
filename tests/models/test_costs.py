"""What a program costs: products, scans times their length, and the longest chain of operations."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.config import Model, NoFeedForward, NoNorm, NoPosition
from txjax.models import Decoder, costs, presets

WIDTH, VOCAB = 8, 16
SIZES = {"width": WIDTH, "num_layers": 2, "vocab_size": VOCAB}


@pytest.mark.parametrize(("preset", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
@pytest.mark.parametrize("length", [1, 12])
def test_the_products_of_a_recurrent_model_count_at_every_step(preset: str, gates: int, length: int):
    model = Decoder(getattr(presets, preset)(**SIZES))
    a_layer, head = 2 * gates * WIDTH**2, WIDTH * VOCAB  # from the input and from the state
    assert costs.forward_flops(model, 3, length) == 2 * 3 * length * (2 * a_layer + head)


def test_a_row_of_a_ragged_product_counts_once_forward_and_backward():
    M, groups = 10, 5
    x, w = jnp.ones((M, WIDTH)), jnp.ones((groups, WIDTH, VOCAB))

    def total(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.ragged_dot(x, w, jnp.array([3, 0, 4, 1, 2])).sum()

    one = 2 * M * WIDTH * VOCAB
    assert costs.matmul_flops(jax.make_jaxpr(total)(x, w).jaxpr) == one
    assert costs.matmul_flops(jax.make_jaxpr(jax.grad(total, (0, 1)))(x, w).jaxpr) == 3 * one


def test_the_longest_chain_of_hand_written_programs():
    def chain(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.sin(x)) + x

    def loop(x: jax.Array) -> jax.Array:
        """Of two numbers, one moves three operations a round, the other one; both are added at last."""
        return sum(jax.lax.scan(lambda c, _: ((jnp.sin(jnp.sin(-c[0])), -c[1]), None), (x, x), None, length=10)[0])

    def depth(function) -> int:  # type: ignore[no-untyped-def]
        return costs.sequential_depth(jax.make_jaxpr(function)(1.0).jaxpr)

    assert depth(lambda x: x) == 0
    assert depth(chain) == 3
    assert depth(jax.jit(chain)) == depth(jax.checkpoint(chain)) == 3
    assert depth(lambda x: loop(x)) == 10 * 3 + depth(lambda x: sum((x, x)))
    assert depth(lambda x: jax.lax.cond(x > 0, chain, jnp.sin, x)) == 3 + 0
    with pytest.raises(ValueError, match="while loop"):
        depth(lambda x: jax.lax.while_loop(lambda c: c < 9, jnp.sin, x))


@pytest.mark.claim("C27", "E10")
def test_the_depth_of_layers_grows_as_published():
    """Vaswani et al. 2017, table 1: by a constant a token where recurrent, not at all for attention and a convolution;
    of a parallel prefix by a constant each time that the length doubles.
    """
    lengths = np.array([8, 16, 32, 64])
    plain = Model(**SIZES, position=NoPosition(), norm=NoNorm(), feedforward=NoFeedForward())

    def depths(mixer: str) -> np.ndarray:
        model = Decoder(replace(plain, mixer=mixer))  # type: ignore[arg-type]
        return np.array([costs.sequential_depth(costs.forward_program(model, 1, int(n))) for n in lengths])

    for mixer in ("rnn", "gru", "lstm"):
        steps = np.diff(depths(mixer)) / np.diff(lengths)
        assert (steps == steps[0]).all() and steps[0] > 2
    for mixer in ("attention", "convolution"):
        assert len(set(depths(mixer))) == 1
    rounds = np.diff(depths("min_gru"))
    assert (rounds == rounds[0]).all() and rounds[0] > 2
