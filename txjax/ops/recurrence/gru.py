"""The gated recurrent unit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import Cell, run, split, wide


def gru_gates(x_3H: Float[Array, "... 3 H"], p_3H: Float[Array, "... 3 H"]) -> Float[Array, "... 4 H"]:
    """x_r + p_r, x_z + p_z, x_n and p_n, for the projected inputs x, biases included, and p = h w + b."""
    x_3H = wide(x_3H)
    return jnp.concatenate([x_3H[..., :2, :] + p_3H[..., :2, :], x_3H[..., 2:, :], p_3H[..., 2:, :]], axis=-2)


def gru_step(h_BH: Float[Array, "B H"], gates_B4H: Float[Array, "B 4 H"]) -> Float[Array, "B H"]:
    """h' = (1 - z) n + z h, with r and z the sigmoid of their gates and n = tanh(x_n + r p_n). Cho et al. 2014, with r
    after the product and a bias inside it, as cuDNN and PyTorch have it, so that all products with h are one.
    """
    reset_BH, keep_BH, new_BH, product_BH = split(gates_B4H)
    keep_BH = jax.nn.sigmoid(keep_BH)
    new_BH = jnp.tanh(new_BH + jax.nn.sigmoid(reset_BH) * product_BH)
    return (1.0 - keep_BH) * new_BH + keep_BH * h_BH


CELL = Cell(gru_gates, gru_step, hidden=lambda h_BH: h_BH)


def gru(
    x_BT3H: Float[Array, "B T 3 H"],
    initial_BH: Float[Array, "B H"],
    w_H3H: Float[Array, "H 3 H"],
    b_H: Float[Array, " H"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], Float[Array, "B H"]]:
    """`gru_step` along a sequence: the hidden states, and the last. b_H: inside n. segments_BT, unroll: see rnn."""
    b_3H = jnp.zeros_like(w_H3H[0]).at[2].set(b_H)  # r and z have theirs in x
    return run(CELL, x_BT3H, initial_BH, w_H3H, b_3H, segments_BT, unroll)
