"""The gated unit whose gates do not read the hidden state, so that all steps can be taken together."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import boundaries


def min_gru_step(h_BH: Float[Array, "B H"], x_B2H: Float[Array, "B 2 H"]) -> Float[Array, "B H"]:
    """h' = (1 - z) h + z n, with z = sigmoid(x_z); x holds the projected inputs of z and n. Feng et al. 2024."""
    keep_BH, added_BH = _update(x_B2H)
    return keep_BH * h_BH + added_BH


def min_gru(
    x_BT2H: Float[Array, "B T 2 H"], initial_BH: Float[Array, "B H"], *, segments_BT: Int[Array, "B T"] | None = None
) -> tuple[Float[Array, "B T H"], Float[Array, "B H"]]:
    """`min_gru_step` along a sequence: the hidden states, and the last. segments_BT: see rnn.

    h_t = a_t h + b_t is a linear map, and such maps combine: a parallel prefix needs log2(T) rounds. As a is between
    0 and 1 nothing overflows, and no logarithms are needed. Blelloch 1990; Martin and Cundy 2018.
    """
    keep_BTH, added_BTH = _update(x_BT2H)
    if segments_BT is None:
        h_BTH = _prefix(keep_BTH, added_BTH, initial_BH)
        return h_BTH, h_BTH[:, -1]
    starts_BT1, real_BT1 = (where_BT[..., None] for where_BT in boundaries(segments_BT))
    keep_BTH = jnp.where(real_BT1, jnp.where(starts_BT1, 0.0, keep_BTH), 1.0)
    h_BTH = _prefix(keep_BTH, jnp.where(real_BT1, added_BTH, 0.0), initial_BH)
    return jnp.where(real_BT1, h_BTH, 0.0), h_BTH[:, -1]


def _prefix(keep_BTH: Array, added_BTH: Array, initial_BH: Array) -> Float[Array, "B T H"]:
    """h_t = a_t h_(t-1) + b_t of all t."""
    added_BTH = added_BTH.at[:, 0].add(keep_BTH[:, 0] * initial_BH)
    return lax.associative_scan(_both, (keep_BTH, added_BTH), axis=1)[1]


def _update(x_2H: Float[Array, "... 2 H"]) -> tuple[Array, Array]:
    """a and b of h' = a h + b."""
    gate_H, new_H = x_2H[..., 0, :].astype(jnp.float32), x_2H[..., 1, :].astype(jnp.float32)
    return jax.nn.sigmoid(-gate_H), jax.nn.sigmoid(gate_H) * new_H


def _both(one: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
    """The map that is one map and then another."""
    return one[0] * then[0], one[1] * then[0] + then[1]
