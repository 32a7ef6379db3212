"""The linear map, with a weight gradient that a CPU computes at full speed."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float


def linear(
    x: Float[Array, "..."], w: Float[Array, "..."], b: Float[Array, "..."] | None = None, *, contract: int = 1
) -> Float[Array, "..."]:
    """x w + b, summed over the last `contract` axes of x, which are the first of w; computed in x's type.

    The axes of w that are left follow those of x: (B, T, D) with (D, N, H) gives (B, T, N, H). The result goes by the
    checkpoint name "product", for remat policies.
    """
    lead, summed = x.shape[: x.ndim - contract], x.shape[x.ndim - contract :]
    if w.shape[:contract] != summed:
        raise ValueError(f"the last {contract} axes of x {x.shape} are not the first of w {w.shape}")
    size = math.prod(summed)
    y: Any = _matmul(x.reshape(*lead, size), w.astype(x.dtype).reshape(size, -1), precision_now())
    y = y.reshape(*lead, *w.shape[contract:])
    return y if b is None else y + b.astype(x.dtype)


def precision_now() -> str | None:
    """Read when the forward pass is traced: the backward pass may be traced after the caller's context has ended."""
    return jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _matmul(x: Array, w: Array, precision: str | None) -> Array:
    """x (..., I) times w (I, O)."""
    return _forward(x, w, precision)[0]


def _forward(x: Array, w: Array, precision: str | None) -> tuple[Array, tuple[Array, Array]]:
    y = lax.dot_general(x, w, (((x.ndim - 1,), (0,)), ((), ())), precision=precision)
    return checkpoint_name(y, "product"), (x, w)


def _backward(precision: str | None, saved: tuple[Array, Array], dy: Array) -> tuple[Array, Array]:
    x, w = saved
    dx = lax.dot_general(dy, w, (((dy.ndim - 1,), (1,)), ((), ())), precision=precision)
    return dx, _weight_gradient(x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1]), precision)


def _weight_gradient(x_MI: Array, dy_MO: Array, precision: str | None) -> Array:
    """x^T dy, (I, O).

    A product that contracts the first axis of its left side transposes that side first; on a CPU the narrower side
    is the cheaper one. The barrier keeps XLA from turning the product round again.
    """
    if jax.default_backend() == "cpu" and x_MI.shape[1] > dy_MO.shape[1]:
        return lax.optimization_barrier(_weight_gradient(dy_MO, x_MI, precision)).T
    return lax.dot_general(x_MI, dy_MO, (((0,), (0,)), ((), ())), precision=precision)


_matmul.defvjp(_forward, _backward)
