"""The linear map."""

from __future__ import annotations

import math

from jaxtyping import Array, Float


def linear(
    x: Float[Array, ...], w: Float[Array, ...], b: Float[Array, ...] | None = None, *, contract: int = 1
) -> Float[Array, ...]:
    """x w + b, summed over the last `contract` axes of x, which are the first of w; computed in x's type.

    The axes of w that are left follow those of x: (B, T, D) with (D, N, H) gives (B, T, N, H).
    """
    lead, summed = x.shape[: x.ndim - contract], x.shape[x.ndim - contract :]
    if w.shape[:contract] != summed:
        raise ValueError(f"the last {contract} axes of x {x.shape} are not the first of w {w.shape}")
    y = x.reshape(*lead, math.prod(summed)) @ w.astype(x.dtype).reshape(math.prod(summed), -1)
    y = y.reshape(*lead, *w.shape[contract:])
    return y if b is None else y + b.astype(x.dtype)
