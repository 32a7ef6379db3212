"""What attention does: its scores before they are scaled, how sharp its weights are, its maps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.models import Model
from txjax.probe.layers import captured


class Saturation(NamedTuple):
    """How far a softmax is from even, over its rows. See `saturation`."""

    largest: Float[Array, ""]
    entropy: Float[Array, ""]
    slope: Float[Array, ""]


def scores(q_BNTH: Float[Array, "*B N T H"], k_BKSH: Float[Array, "*B K S H"]) -> Float[Array, "*B N T S"]:
    """q k^T, not scaled; query head n reads key head n K // N."""
    groups = q_BNTH.shape[-3] // k_BKSH.shape[-3]
    return jnp.einsum("...nth,...nsh->...nts", q_BNTH, jnp.repeat(k_BKSH, groups, axis=-3))


def score_variance(q_BNTH: Float[Array, "*B N T H"], k_BKSH: Float[Array, "*B K S H"]) -> Float[Array, ""]:
    """The variance of q k over all pairs: H where components are independent, of mean 0 and variance 1.

    Vaswani et al. 2017, footnote 4.
    """
    return scores(q_BNTH, k_BKSH).var()


def entropy(weights: Float[Array, "*B S"]) -> Float[Array, "*B"]:
    """-sum p log p of each row, in nats: log S where even, 0 where one key has all, and of a row without keys."""
    return -jnp.where(weights > 0, weights * jnp.log(jnp.where(weights > 0, weights, 1.0)), 0.0).sum(-1)


def saturation(weights: Float[Array, "*B S"]) -> Saturation:
    """largest: mean over rows of max p. entropy: mean, in nats. slope: median over rows of sum p (1 - p), the trace of
    the softmax's Jacobian, which is what a gradient has to pass: 1 - 1/S where even, 0 where one key has all. The
    median, because a few rows that are not saturated hold the mean up.
    """
    slope = (weights * (1 - weights)).sum(-1)
    return Saturation(weights.max(-1).mean(), entropy(weights).mean(), jnp.median(slope))


def attention_maps(model: Model, params: Any, batch: Batch) -> Float[Array, "L B N T S"]:
    """The weights of every attention layer, in order."""
    tree = jax.jit(lambda: model.apply(params, batch, capture=("attention_weights",), unembed=False).captured)()
    return jnp.stack(captured(tree, "attention_weights"))
