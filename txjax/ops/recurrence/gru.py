"""The gated recurrent unit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import product, run


def gru_step(
    h_BH: Float[Array, "B H"],
    x_B3H: Float[Array, "B 3 H"],
    w_H3H: Float[Array, "H 3 H"],
    b_H: Float[Array, " H"],
) -> Float[Array, "B H"]:
    """h' = (1 - z) n + z h, with r = sigmoid(x_r + h w_r), z = sigmoid(x_z + h w_z), n = tanh(x_n + r (h w_n + b)).

    x holds the projected inputs of r, z and n, biases included. Cho et al. 2014, with r after the product and a bias
    inside it, as cuDNN and PyTorch have it, so that all products with h are one.
    """
    x_B3H, h_B3H = x_B3H.astype(jnp.float32), product(h_BH, w_H3H, x_B3H)
    reset_BH = jax.nn.sigmoid(x_B3H[:, 0] + h_B3H[:, 0])
    keep_BH = jax.nn.sigmoid(x_B3H[:, 1] + h_B3H[:, 1])
    new_BH = jnp.tanh(x_B3H[:, 2] + reset_BH * (h_B3H[:, 2] + b_H))
    return (1.0 - keep_BH) * new_BH + keep_BH * h_BH


def gru(
    x_BT3H: Float[Array, "B T 3 H"],
    initial_BH: Float[Array, "B H"],
    w_H3H: Float[Array, "H 3 H"],
    b_H: Float[Array, " H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], Float[Array, "B H"]]:
    """`gru_step` along a sequence: the hidden states, and the last. segments_BT, unroll: see rnn."""

    def step(h_BH: Array, x_B3H: Array) -> Array:
        return gru_step(h_BH, x_B3H, w_H3H, b_H)

    return run(step, lambda h_BH: h_BH, x_BT3H, initial_BH, segments_BT, unroll)
