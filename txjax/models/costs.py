"""What a model costs, counted from its own program and without running it."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from txjax.batch import Batch
from txjax.config import Config
from txjax.models.base import Model


def count_parameters(tree: Any) -> int:
    """Numbers in a tree of arrays or of their shapes."""
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def matmul_flops(jaxpr: Any) -> int:
    """2 m k n of every matrix product in a jaxpr, inner programs included, a scan's body once an iteration.

    Of a choice between platforms or branches the costliest branch counts.
    """
    total = 0
    for eqn in jaxpr.eqns:
        name, params = eqn.primitive.name, eqn.params
        if name == "dot_general":
            (contract, _), _ = params["dimension_numbers"]
            summed = math.prod(eqn.invars[0].aval.shape[i] for i in contract)
            total += 2 * summed * math.prod(eqn.outvars[0].aval.shape)
        elif name == "cond":
            total += max(matmul_flops(branch.jaxpr) for branch in params["branches"])
        else:
            times = params["length"] if name == "scan" else 1
            for value in params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    inner = getattr(inner, "jaxpr", inner)
                    if hasattr(inner, "eqns"):
                        total += times * matmul_flops(inner)
    return total


def forward_flops(model: Model, batch_size: int, length: int) -> int:
    """Matrix-product FLOPs of one forward pass over a batch, head included, scores counted in full (not halved for
    the causal mask).
    """
    tokens = jax.ShapeDtypeStruct((batch_size, length), jnp.int32)

    def forward(params: Any, tokens: Any) -> Any:
        return model.apply(params, Batch(tokens=tokens)).logits

    return matmul_flops(jax.make_jaxpr(forward)(model.shapes(), tokens).jaxpr)


def train_flops_per_token(model: Model, length: int) -> float:
    """Model FLOPs of one training token at a sequence length: three forward passes, what is computed again for memory
    not counted. Divided by seconds a token and the device's peak it is the model FLOPs utilisation (MFU) of
    Chowdhery et al. 2022, appendix B.
    """
    return 3 * forward_flops(model, 1, length) / length


def memory(model: Model, config: Config) -> dict[str, float]:
    """Bytes of one unsharded copy of what training holds, by what it is, and of a token in the cache of generation."""
    shapes = model.shapes()
    parameters = _bytes(shapes)
    moments = jax.eval_shape(config.optim.optimizer.direction(model.axes()).init, shapes)

    def cache_of_one(params: Any) -> Any:
        return model.prefill(params, Batch(tokens=jnp.zeros((1, 1), jnp.int32)), 1)[1]

    rows = config.train.batch_size // config.train.accumulation
    tokens = rows * config.context
    return {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer": _bytes(moments),
        f"activations of {rows} x {config.context} tokens": saved_activations(model, rows, config.context),
        "logits held at once": min(tokens, config.train.loss_chunk or tokens) * config.model.vocab * 4,
        "cache, a token": _bytes(jax.eval_shape(cache_of_one, shapes)),
    }


def saved_activations(model: Model, batch_size: int, length: int) -> float:
    """Bytes that a forward pass up to the hidden states leaves for the backward pass, under the config's remat."""

    def pullback(params: Any, tokens: Any) -> Any:
        return jax.vjp(lambda p: model.apply(p, Batch(tokens=tokens), unembed=False).hidden, params)[1]

    shapes = model.shapes()
    saved = jax.eval_shape(pullback, shapes, jax.ShapeDtypeStruct((batch_size, length), jnp.int32))
    return max(_bytes(saved) - _bytes(shapes), 0.0)  # the parameters are among what is saved


def _bytes(tree: Any) -> float:
    return float(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)))
