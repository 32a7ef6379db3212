"""Cross-entropy and accuracy as sums over weighted tokens, to be divided once by the sum of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cross_entropy(
    logits: Float[Array, "*B V"], targets: Int[Array, "*B"], *, label_smoothing: float = 0.0
) -> Float[Array, "*B"]:
    """-(1 - e) log p[target] - e mean(log p), in nats and float32, of each token.

    The smoothed mass e is spread over the whole vocabulary, the target included: Szegedy et al. 2016.
    """
    logits = logits.astype(jnp.float32)
    log_total = jax.nn.logsumexp(logits, axis=-1)
    at_target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    if label_smoothing == 0.0:
        return log_total - at_target
    return log_total - (1 - label_smoothing) * at_target - label_smoothing * logits.mean(-1)


def correct(logits: Float[Array, "*B V"], targets: Int[Array, "*B"]) -> Float[Array, "*B"]:
    """1 where the largest logit is the target's, else 0; of equal logits the one of the smallest id counts."""
    return (jnp.argmax(logits, axis=-1) == targets).astype(jnp.float32)


Measure = Callable[[Array, Array], Array]  # of logits and targets, one number a token


def sums(
    measures: tuple[Measure, ...],
    unembed: Callable[[Array], Array],
    hidden_BTD: Float[Array, "B T D"],
    targets_BT: Int[Array, "B T"],
    weights_BT: Float[Array, "B T"],
    *,
    chunk: int | None,
) -> tuple[Float[Array, ""], ...]:
    """For each measure, the sum over tokens of weight times measure(unembed(hidden), targets).

    chunk: tokens whose logits exist at once, or None for all. Logits of a chunk are computed again in the backward
    pass, so that B T V never has to fit.
    """

    def totals(hidden: Array, targets: Array, weights: Array) -> tuple[Array, ...]:
        logits = unembed(hidden)
        values = (measure(logits, targets) for measure in measures)
        return tuple(jnp.sum(jnp.where(weights == 0, 0.0, value * weights)) for value in values)

    tokens = targets_BT.size
    if chunk is None or chunk >= tokens:
        return totals(hidden_BTD, targets_BT, weights_BT)
    count = -(-tokens // chunk)
    pad = count * chunk - tokens
    hidden = jnp.pad(hidden_BTD.reshape(tokens, -1), ((0, pad), (0, 0))).reshape(count, 1, chunk, -1)
    targets = jnp.pad(targets_BT.reshape(-1), (0, pad)).reshape(count, 1, chunk)
    weights = jnp.pad(weights_BT.reshape(-1), (0, pad)).reshape(count, 1, chunk)

    @jax.checkpoint
    def add(so_far: tuple[Array, ...], piece: tuple[Array, Array, Array]) -> tuple[tuple[Array, ...], None]:
        return jax.tree.map(jnp.add, so_far, totals(*piece)), None

    nothing = tuple(jnp.zeros((), jnp.float32) for _ in measures)
    return jax.lax.scan(add, nothing, (hidden, targets, weights))[0]


def sum_of_losses(
    unembed: Callable[[Array], Array],
    hidden_BTD: Float[Array, "B T D"],
    targets_BT: Int[Array, "B T"],
    weights_BT: Float[Array, "B T"],
    *,
    label_smoothing: float = 0.0,
    chunk: int | None = None,
) -> Float[Array, ""]:
    """sum over tokens of weight times cross-entropy of unembed(hidden); see sums."""
    loss = partial(cross_entropy, label_smoothing=label_smoothing)
    return sums((loss,), unembed, hidden_BTD, targets_BT, weights_BT, chunk=chunk)[0]
