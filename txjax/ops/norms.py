"""Normalisation of each token's vector over its width. Statistics are float32 whatever the compute type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.schema import Kind, require


def layer_norm(
    x: Float[Array, "*B D"], gain: Float[Array, " D"], bias: Float[Array, " D"] | None, *, eps: float
) -> Float[Array, "*B D"]:
    """(x - mean) / sqrt(var + eps) * gain + bias, over the last axis.

    Shift- and scale-invariant in x (up to eps); a constant row gives the bias. Ba et al. 2016.
    """
    return _normalise(x, gain, bias, eps, True)


def rms_norm(x: Float[Array, "*B D"], gain: Float[Array, " D"], *, eps: float) -> Float[Array, "*B D"]:
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis: layer_norm without centring. Zhang and Sennrich 2019."""
    return _normalise(x, gain, None, eps, False)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _normalise(x: Array, gain: Array, bias: Array | None, eps: float, centred: bool) -> Array:
    return _forward(x, gain, bias, eps, centred)[0]


def _forward(x: Array, gain: Array, bias: Array | None, eps: float, centred: bool) -> tuple[Array, Any]:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True) if centred else None
    deviation = wide if mean is None else wide - mean
    inverse = jax.lax.rsqrt(jnp.square(deviation).mean(-1, keepdims=True) + eps)
    y = deviation * inverse * gain
    return (y if bias is None else y + bias).astype(x.dtype), (x, gain, bias, mean, inverse)


def _backward(eps: float, centred: bool, saved: Any, dy: Array) -> tuple[Array, Array, Array | None]:
    """For n = (x - mean) / std and g = dy gain: dx = (g - mean(g) - n mean(g n)) / std.

    By hand so that the backward pass needs x and two numbers a row, whatever is saved around it.
    """
    x, gain, bias, mean, inverse = saved
    wide, dwide = x.astype(jnp.float32), dy.astype(jnp.float32)
    n = (wide if mean is None else wide - mean) * inverse
    g = dwide * gain
    dx = g - n * (g * n).mean(-1, keepdims=True)
    dx = dx if mean is None else dx - g.mean(-1, keepdims=True)
    rows = tuple(range(x.ndim - 1))
    dbias = None if bias is None else dwide.sum(rows).astype(bias.dtype)
    return (dx * inverse).astype(x.dtype), (dwide * n).sum(rows).astype(gain.dtype), dbias


_normalise.defvjp(_forward, _backward)


class Norm(Kind, home="txjax.ops.norms"):
    """A normalisation with its parameters, vectors of the model's width."""

    def parameters(self) -> dict[str, float]:
        """The initial value of each parameter vector, by name."""
        return {}

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        """x normalised over its last axis."""
        raise NotImplementedError


@dataclass(frozen=True)
class LayerNorm(Norm, kind="layer"):
    """See `layer_norm`; bias: whether it has one."""

    eps: float = 1e-5
    bias: bool = True

    def check(self) -> None:
        require(self.eps > 0, f"eps must be positive, got {self.eps}")

    def parameters(self) -> dict[str, float]:
        return {"gain": 1.0, "bias": 0.0} if self.bias else {"gain": 1.0}

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        return layer_norm(x, parameters["gain"], parameters.get("bias"), eps=self.eps)


@dataclass(frozen=True)
class RMSNorm(Norm, kind="rms"):
    """See `rms_norm`."""

    eps: float = 1e-5

    def check(self) -> None:
        require(self.eps > 0, f"eps must be positive, got {self.eps}")

    def parameters(self) -> dict[str, float]:
        return {"gain": 1.0}

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        return rms_norm(x, parameters["gain"], eps=self.eps)


@dataclass(frozen=True)
class NoNorm(Norm, kind="none"):
    """The identity."""

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        return x
