"""How far gradients reach: through the layers, and back through the sequence."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.models import Model
from txjax.nn.context import Knobs
from txjax.ops.losses import sum_of_losses
from txjax.probe.layers import by_layer, with_own_layers


def weight_gradients(model: Model, params: Any, batch: Batch, knobs: Knobs | None = None) -> Any:
    """d loss / d parameters, a tree like them; the loss is the mean over weighted tokens, of the head alone. Where
    periods share parameters: in each layer's use of them, whose sum is the gradient, a tree as if each had its own.
    """
    model, params = with_own_layers(model, params)
    weights_BT = jnp.ones(batch.targets.shape) if batch.weights is None else jnp.asarray(batch.weights)

    def loss(params: Any) -> Array:
        hidden_BTD = model.apply(params, batch, knobs=knobs, unembed=False).hidden
        total = sum_of_losses(lambda h: model.unembed(params, h), hidden_BTD, batch.targets, weights_BT)
        return total / weights_BT.sum()

    return jax.jit(jax.grad(loss))(params)


def gradient_norms(tree: Mapping[str, Any], part: Callable[[Any], Any] = lambda layer: layer) -> Float[Array, " L"]:
    """The Frobenius norm of each layer's part of a tree of gradients; part: of a layer's subtree, or all of it:
    `lambda layer: layer["dense"]["out"]["w"]`.
    """

    def norm(layer: Any) -> Array:
        return jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(part(layer))))

    return jnp.stack([norm(layer) for layer in by_layer(tree)])


def gradient_by_distance(model: Model, params: Any, batch: Batch) -> Float[Array, "B T"]:
    """|d h_T / d x_t| for each t, the Frobenius norm of the Jacobian of the last hidden state in token t's embedding:
    column T - 1 - k is what distance k leaves of a gradient. Compiled once for equal models and batches of one shape.

    No token may occur twice in a row of the batch, since both would share an embedding: ValueError.
    """
    tokens_BT = jnp.asarray(batch.tokens)
    if (jnp.diff(jnp.sort(tokens_BT, axis=1), axis=1) == 0).any():
        raise ValueError("a token occurs twice in a row, and the gradients of both places would be added up")
    return _distances(model)(params, tokens_BT)


@functools.cache
def _distances(model: Model) -> Callable[[Any, Array], Array]:
    def jacobian(params: Any, tokens_T: Array) -> Array:
        def last(table_VD: Array) -> Array:
            one = Batch(tokens=tokens_T[None])
            return model.apply({**params, "embedding": {"w": table_VD}}, one, unembed=False).hidden[0, -1]

        by_token_EVD = jax.jacrev(last)(params["embedding"]["w"])
        return jnp.sqrt(jnp.square(by_token_EVD[:, tokens_T]).sum((0, 2)))

    return jax.jit(jax.vmap(jacobian, (None, 0)))
