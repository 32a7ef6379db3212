"""Which experts a token goes to and with what weights, how evenly, and the losses and biases that even it out.

Losses are sums over real tokens: divided by the number of tokens they have the values stated.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

Gate = Literal["softmax", "softmax_chosen", "sigmoid"]


class Routing(NamedTuple):
    """experts_BTK: each token's experts, the best first. weights_BTK: of their outputs. shares_BTE: a token's scores
    for all experts, divided by their sum.
    """

    experts_BTK: Int[Array, "B T K"]
    weights_BTK: Float[Array, "B T K"]
    shares_BTE: Float[Array, "B T E"]


class Groups(NamedTuple):
    """number: groups of neighbouring experts. kept: groups that a token may choose from. best: of how many of its best
    scores the sum is a group's own.
    """

    number: int
    kept: int
    best: int


def route(
    logits_BTE: Float[Array, "B T E"],
    *,
    top_k: int,
    gate: Gate,
    renormalise: bool,
    scale: float,
    groups: Groups | None,
    bias_E: Float[Array, " E"] | None,
) -> Routing:
    """The top_k experts by s + bias, each weighted by scale * s.

    s: softmax is softmax(logits) over all experts, not 1 together over the chosen ones (Dai et al. 2024);
        softmax_chosen is the softmax over the chosen ones' logits (Jiang et al. 2024); sigmoid is sigmoid(logits), each
        expert by itself (DeepSeek-AI 2024).
    renormalise: the chosen ones' s are divided by their sum; softmax becomes softmax_chosen by that.
    groups: experts of the best groups alone are chosen, DeepSeek-AI 2024 (V3), section 2.1.2; None: of all.
    bias_E: enters the choice, not the weights, and has no gradient; None: none.

    logits are float32, as everything here. Of equal scores the expert with the lower number is taken.
    """
    log_BTE = jax.nn.log_sigmoid(logits_BTE) if gate == "sigmoid" else jax.nn.log_softmax(logits_BTE)
    scores_BTE = jnp.exp(log_BTE)
    wish_BTE = scores_BTE if bias_E is None else scores_BTE + bias_E
    if groups is not None:
        wish_BTE = jnp.where(_in_best_groups(wish_BTE, groups), wish_BTE, -jnp.inf)
    experts_BTK = lax.top_k(lax.stop_gradient(wish_BTE), top_k)[1]
    if renormalise or gate == "softmax_chosen":  # s / sum(s), of its logarithm: all gates may be shut, to 0 in float32
        weights_BTK = jax.nn.softmax(jnp.take_along_axis(log_BTE, experts_BTK, -1))
    else:
        weights_BTK = jnp.take_along_axis(scores_BTE, experts_BTK, -1)
    return Routing(experts_BTK, scale * weights_BTK, jax.nn.softmax(log_BTE))


def _in_best_groups(wish_BTE: Array, groups: Groups) -> Bool[Array, "B T E"]:
    by_group = wish_BTE.reshape(*wish_BTE.shape[:-1], groups.number, -1)
    of_group = lax.top_k(by_group, groups.best)[0].sum(-1)
    kept = lax.top_k(of_group, groups.kept)[1]
    chosen = (kept[..., None] == jnp.arange(groups.number)).any(-2)
    return jnp.repeat(chosen, by_group.shape[-1], axis=-1)


def loads(experts_BTK: Int[Array, "B T K"], real_BT: Bool[Array, "B T"], num_experts: int) -> Float[Array, "B E"]:
    """How many choices of each row's real tokens fell on each expert."""
    hit_BTKE = experts_BTK[..., None] == jnp.arange(num_experts)
    return (hit_BTKE & real_BT[..., None, None]).sum((1, 2), dtype=jnp.float32)


def balance_loss(routing: Routing, real_BT: Bool[Array, "B T"], over: Literal["batch", "sequence"]) -> Float[Array, ""]:
    """n sum_e f_e P_e over the n tokens of the batch, or of each sequence, then summed over these.

    f_e = E / (K n) times the choices that fell on e, P_e the mean of s_e / sum(s) over tokens: a token's share is 1
    where loads are even, E / K where all go to the same K experts. Only P has a gradient.

    batch: Fedus et al. 2021, equations 4 to 6, for K = 1; for K choices Dai et al. 2024, equations 12 to 14. It is not
    linear in the batch: of micro-batches it is another one. sequence: DeepSeek-AI 2024 (V3), equations 17 to 20, with
    the scores' sum as they take it for sigmoid gates; it is a sum over sequences, however they are batched.
    """
    E, K = routing.shares_BTE.shape[-1], routing.experts_BTK.shape[-1]
    shares_BTE = jnp.where(real_BT[..., None], routing.shares_BTE, 0.0)
    load_GE, share_GE = loads(routing.experts_BTK, real_BT, E), shares_BTE.sum(1)
    tokens_G = real_BT.sum(1, dtype=jnp.float32)
    if over == "batch":
        load_GE, share_GE, tokens_G = (x.sum(0, keepdims=True) for x in (load_GE, share_GE, tokens_G))
    return (E / K * (lax.stop_gradient(load_GE) * share_GE).sum(-1) / jnp.maximum(tokens_G, 1.0)).sum()


def z_loss(logits_BTE: Float[Array, "B T E"], real_BT: Bool[Array, "B T"]) -> Float[Array, ""]:
    """The sum of log(sum(exp(logits)))^2 over real tokens: it keeps logits small. Zoph et al. 2022, equation 5."""
    return jnp.where(real_BT, jax.nn.logsumexp(logits_BTE, -1) ** 2, 0.0).sum()


def balanced_bias(bias_E: Float[Array, " E"], load_E: Float[Array, " E"], speed: float) -> Float[Array, " E"]:
    """bias + speed * sign(mean load - load): experts with little to do are chosen more often from now on. Wang et al.
    2024, algorithm 1; DeepSeek-AI 2024 (V3), section 2.1.2.
    """
    return bias_E + speed * jnp.sign(load_E.mean() - load_E)


def entropy(shares_BTE: Float[Array, "B T E"], real_BT: Bool[Array, "B T"]) -> Float[Array, ""]:
    """Of a real token's shares, in nats, averaged: log E where the router has no preference, 0 where it is certain."""
    p = shares_BTE
    each_BT = -jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p, 1.0)), 0.0).sum(-1)
    return jnp.where(real_BT, each_BT, 0.0).sum() / jnp.maximum(real_BT.sum(), 1)


def largest_load(load_E: Float[Array, " E"]) -> Float[Array, ""]:
    """The largest load over the mean load: 1 where loads are even, E / K where all tokens go to the same K experts."""
    return load_E.max() / jnp.maximum(load_E.mean(), 1e-9)
