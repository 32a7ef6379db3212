"""The logit lens: what a model would say, had it ended after one of its layers."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.models.decoder import Decoder
from txjax.nn.context import Context
from txjax.nn.norm import Norm
from txjax.probe.layers import captured
from txjax.schema import require


class Guesses(NamedTuple):
    """The k likeliest ids after each layer, the first row before any, and their probabilities."""

    ids: Int[Array, "M B T k"]
    probabilities: Float[Array, "M B T k"]


def logit_lens(model: Decoder, params: Any, batch: Batch) -> Float[Array, "M B T V"]:
    """head(n(x)) of the residual stream x after the embedding and after each layer, M = layers + 1, for the model's
    final norm n; a post-norm stack has normalised its stream already. The last row is the model's logits.

    ConfigError where the head does not give each token logits over the vocabulary. nostalgebraist 2020.
    """
    return _by_layer(params, batch, model=model, k=None)


def guesses(model: Decoder, params: Any, batch: Batch, k: int = 1) -> Guesses:
    """What the lens shows, without logits of all layers at once."""
    return _by_layer(params, batch, model=model, k=k)


def speaks(model: Decoder) -> bool:
    """Whether the head gives each token logits over the vocabulary."""
    batch = model.inputs(1, 2)
    shape = jax.eval_shape(lambda params, batch: model.apply(params, batch).logits, model.shapes(), batch).shape
    return model.config.embedding.reads == "ids" and shape == (1, 2, model.config.vocab)


@partial(jax.jit, static_argnames=("model", "k"))
def _by_layer(params: Any, batch: Batch, *, model: Decoder, k: int | None) -> Any:
    config = model.config
    require(speaks(model), f"the logit lens needs a head that predicts tokens, got head={config.head.kind}")
    tree = model.apply(params, batch, capture=("embedded", "residual"), unembed=False).captured
    streams_MBTD = jnp.stack([tree["embedded"][0], *captured(tree, "residual")])
    context = Context(model.knobs(), segments=batch.segments)

    def read(x_BTD: Array) -> Any:
        if config.norm_placement != "post":
            x_BTD = Norm(config.norm).apply({"params": params.get("final_norm", {})}, x_BTD, context)  # type: ignore[assignment]
        logits_BTV = model.unembed(params, x_BTD)
        if k is None:
            return logits_BTV
        probabilities, ids = jax.lax.top_k(jax.nn.softmax(logits_BTV), k)
        return Guesses(ids, probabilities)

    return jax.lax.map(read, streams_MBTD)
