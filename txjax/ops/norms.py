"""Normalisation of each token's vector over its width. Statistics are float32 whatever the compute type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    y = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + eps) * gain
    return (y if bias is None else y + bias).astype(x.dtype)


def rms_norm(x: Float[Array, "*B D"], gain: Float[Array, " D"], *, eps: float) -> Float[Array, "*B D"]:
    """x / sqrt(mean(x^2) + eps) * gain, over the last axis: layer_norm without centring. Zhang and Sennrich 2019."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + eps) * gain).astype(x.dtype)


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
