"""Experts applied to the tokens that chose them: sum_k weight_k expert_k(x), a dropless and a capacity-limited way.

Both sort tokens to experts by gathers. Padding is replaced by zeros on the way in and gives zeros: what it held reaches
no expert, no output and no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.activations import ACTIVATIONS
from txjax.ops.moe.ragged import ragged
from txjax.ops.moe.routing import Routing


class Map(NamedTuple):
    """A linear map of each expert: w_EIO, and b_EO or None."""

    w: Float[Array, "E I O"]
    b: Float[Array, "E O"] | None


class Experts(NamedTuple):
    """Networks of one shape, f(x W_in + b) W_out + b, or gated: see ops/activations.py."""

    inward: Map
    gate: Map | None
    outward: Map


Apply = Callable[[Array, Map], Array]


def network(x: Array, experts: Experts, activation: str, apply: Apply) -> Array:
    """All experts, each on its own rows of x; `apply` knows which rows those are."""
    function, _ = ACTIVATIONS[activation]
    hidden = apply(x, experts.inward)
    hidden = function(hidden) if experts.gate is None else function(apply(x, experts.gate), hidden)
    return apply(hidden, experts.outward)


def dropless(
    x_BTD: Float[Array, "B T D"], routing: Routing, real_BT: Bool[Array, "B T"], experts: Experts, activation: str
) -> Float[Array, "B T D"]:
    """Every token reaches all the experts that it chose: tokens sorted by expert, and one ragged product a map.

    Padding comes last, as zeros among the last expert's rows: a ragged product wants each row in some group.
    """
    (B, T, D), K, E = x_BTD.shape, routing.experts_BTK.shape[-1], experts.inward.w.shape[0]
    x_BTD = jnp.where(real_BT[..., None], x_BTD, 0.0)
    sort_key_M = jnp.where(real_BT[..., None], routing.experts_BTK, E).ravel()
    order_M = jnp.argsort(sort_key_M)
    expert_M = jnp.minimum(sort_key_M[order_M], E - 1)
    sizes_E = (expert_M[:, None] == jnp.arange(E)).sum(0, dtype=jnp.int32)

    def apply(rows_MI: Array, map: Map) -> Array:
        y = ragged(rows_MI, map.w.astype(rows_MI.dtype), sizes_E)
        return y if map.b is None else y + map.b.astype(y.dtype)[expert_M]

    y_MD = network(x_BTD.reshape(B * T, D)[order_M // K], experts, activation, apply)
    place_M = jnp.zeros_like(order_M).at[order_M].set(jnp.arange(B * T * K, dtype=order_M.dtype), unique_indices=True)
    return combine(y_MD[place_M].reshape(B, T, K, D), routing.weights_BTK, real_BT[..., None])


def combine(
    y_BTKD: Float[Array, "B T K D"], weights_BTK: Float[Array, "B T K"], kept_BTK: Bool[Array, "B T K"]
) -> Float[Array, "B T D"]:
    """The weighted sum over a token's choices that were kept, in the weights' float32."""
    weighted = jnp.where(kept_BTK[..., None], y_BTKD * weights_BTK[..., None], 0.0)
    return weighted.sum(2).astype(y_BTKD.dtype)


def capacity_of(factor: float, tokens: int, top_k: int, num_experts: int) -> int:
    """Places that an expert has for a sequence of so many real tokens: factor times its even share, rounded up."""
    return int(np.ceil(np.float32(tokens) * np.float32(factor * top_k / num_experts)))


class Places(NamedTuple):
    """slot_BTK: a choice's place at its expert. kept_BTK: whether it has one."""

    slot_BTK: Int[Array, "B T K"]
    kept_BTK: Bool[Array, "B T K"]


def places(experts_BTK: Int[Array, "B T K"], real_BT: Bool[Array, "B T"], num_experts: int, factor: float) -> Places:
    """The first choices of an expert in a sequence have a place there, as many as `capacity_of` its real tokens:
    earlier tokens go before later ones, whichever of their choices it is, so that no token depends on a later one.
    """
    B, T, K = experts_BTK.shape
    wanted_BTKE = (experts_BTK[..., None] == jnp.arange(num_experts)) & real_BT[..., None, None]
    wanted_BME = wanted_BTKE.reshape(B, T * K, num_experts)
    before_BME = jnp.cumsum(wanted_BME, 1, dtype=jnp.int32) - wanted_BME
    slot_BTK = jnp.take_along_axis(before_BME.reshape(B, T, K, num_experts), experts_BTK[..., None], -1)[..., 0]
    capacity_B = jnp.ceil(real_BT.sum(1, dtype=jnp.float32) * np.float32(factor * K / num_experts))  # capacity_of
    return Places(slot_BTK, (slot_BTK < capacity_B[:, None, None]) & real_BT[..., None])


def with_capacity(
    x_BTD: Float[Array, "B T D"],
    routing: Routing,
    real_BT: Bool[Array, "B T"],
    experts: Experts,
    activation: str,
    factor: float,
) -> Float[Array, "B T D"]:
    """Each expert takes some tokens of a sequence, see `places`; a choice beyond them adds nothing, so that of a token
    without any only the residual is left. Shapes are fixed, and a sequence is a group of its own: it does not compete
    with others in its batch. Lepikhin et al. 2020 (GShard); Fedus et al. 2021.
    """
    (T, K), E = routing.experts_BTK.shape[1:], experts.inward.w.shape[0]
    x_BTD = jnp.where(real_BT[..., None], x_BTD, 0.0)
    where = places(routing.experts_BTK, real_BT, E, factor)
    capacity = min(T, capacity_of(factor, T, K, E))  # an expert is a token's choice once

    def fill(x_TD: Array, experts_TK: Array, slot_TK: Array, kept_TK: Array) -> Array:
        """The rows of each expert's places, zeros where a place is empty."""
        token_TK = jnp.broadcast_to(jnp.arange(T)[:, None], experts_TK.shape)
        empty_EC = jnp.full((E, capacity), T)
        token_EC = empty_EC.at[experts_TK, jnp.where(kept_TK, slot_TK, capacity)].set(token_TK, mode="drop")
        return x_TD.at[token_EC].get(mode="fill", fill_value=0)

    def apply(rows_EBCI: Array, map: Map) -> Array:
        rows_EMI = rows_EBCI.reshape(E, -1, rows_EBCI.shape[-1])
        y = lax.dot_general(rows_EMI, map.w.astype(rows_EMI.dtype), (((2,), (1,)), ((0,), (0,))))
        y = checkpoint_name(y, "product").reshape(*rows_EBCI.shape[:-1], -1)
        return y if map.b is None else y + map.b.astype(y.dtype)[:, None, None]

    rows_EBCD = jax.vmap(fill, out_axes=1)(x_BTD, routing.experts_BTK, *where)
    y_EBCD = network(rows_EBCD, experts, activation, apply)

    def fetch(y_ECD: Array, experts_TK: Array, slot_TK: Array) -> Array:
        return y_ECD[experts_TK, jnp.minimum(slot_TK, capacity - 1)]

    y_BTKD = jax.vmap(fetch, in_axes=(1, 0, 0))(y_EBCD, routing.experts_BTK, where.slot_BTK)
    return combine(y_BTKD, routing.weights_BTK, where.kept_BTK)
