"""Normalisation of each token's vector over its width, or of each channel over the tokens of a batch. Statistics are
float32 whatever the compute type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

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
    """A normalisation with its parameters, vectors of the model's width.

    One that looks at other tokens keeps `statistics` of those it has seen and fills in `train`.
    """

    def parameters(self) -> dict[str, float]:
        """The initial value of each parameter vector, by name."""
        return {}

    def statistics(self) -> dict[str, float]:
        """The initial value of each vector that follows the data and not a gradient, by name."""
        return {}

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        """x normalised over its last axis, or by the statistics; they are among `parameters`."""
        raise NotImplementedError

    def train(
        self, x: Array, parameters: Mapping[str, Array], real: Bool[Array, "..."] | None
    ) -> tuple[Array, dict[str, Array]]:
        """x normalised in a step of training, and the statistics after it. real: where x is no padding, in a shape that
        broadcasts to it, or None: everywhere.
        """
        return self(x, parameters), {}


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
class BatchNorm(Norm, kind="batch"):
    """(x - mean) / sqrt(var + eps) * gain + bias, a mean and a variance for each channel. In training they are those of
    the batch's tokens, so that a token sees the others, later ones and those of other rows; otherwise running means,
    r <- (1 - momentum) r + momentum (the batch's), of the variance without bias. Ioffe and Szegedy 2015.

    The batch is that of all devices, and with accumulation a micro-batch: the running means then move by the mean of
    what each would set them to. count_padding: whether padding is among a batch's tokens, so that these means depend on
    how much there is of it. Why text is hard for it: Shen et al. 2020.
    """

    eps: float = 1e-5
    momentum: float = 0.1
    count_padding: bool = False

    def check(self) -> None:
        require(self.eps > 0, f"eps must be positive, got {self.eps}")
        require(0 < self.momentum <= 1, f"momentum must be in (0, 1], got {self.momentum}")

    def parameters(self) -> dict[str, float]:
        return {"gain": 1.0, "bias": 0.0}

    def statistics(self) -> dict[str, float]:
        return {"mean": 0.0, "variance": 1.0}

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        scale = jax.lax.rsqrt(parameters["variance"] + self.eps) * parameters["gain"]
        return ((x.astype(jnp.float32) - parameters["mean"]) * scale + parameters["bias"]).astype(x.dtype)

    def train(
        self, x: Array, parameters: Mapping[str, Array], real: Bool[Array, "..."] | None
    ) -> tuple[Array, dict[str, Array]]:
        wide, over = x.astype(jnp.float32), tuple(range(x.ndim - 1))
        counted = jnp.ones((), bool) if real is None or self.count_padding else real
        weight = jnp.broadcast_to(counted, (*x.shape[:-1], 1)).astype(jnp.float32)
        count = weight.sum()
        mean = (wide * weight).sum(over) / jnp.maximum(count, 1.0)
        variance = (jnp.square(wide - mean) * weight).sum(over) / jnp.maximum(count, 1.0)
        unbiased = variance * count / jnp.maximum(count - 1.0, 1.0)
        after = {
            name: jnp.where(count > 0, (1 - self.momentum) * parameters[name] + self.momentum * new, parameters[name])
            for name, new in (("mean", mean), ("variance", unbiased))
        }
        return self(x, {**parameters, "mean": mean, "variance": variance}), after


@dataclass(frozen=True)
class NoNorm(Norm, kind="none"):
    """The identity."""

    def __call__(self, x: Array, parameters: Mapping[str, Array]) -> Array:
        return x
