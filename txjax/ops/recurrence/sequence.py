"""A step over a sequence, with documents packed into rows and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.linear import linear

S = TypeVar("S")


def run(
    step: Callable[[S, Array], S],
    output: Callable[[S], Array],
    x_BTX: Float[Array, "B T ..."],
    initial: S,
    segments_BT: Int[Array, "B T"] | None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], S]:
    """What `output` shows of the states after each token, and the state after the last one.

    segments_BT: documents numbered from 1, or None for one a row. A document's first token finds a state of zeros;
    only a row's first token, whatever its document, finds `initial`. Padding, 0, leaves the state and shows zeros.
    """

    def body(state: S, now: tuple[Array, Array | None, Array | None]) -> tuple[S, Array]:
        x_BX, starts_B1, real_B1 = now
        if starts_B1 is not None:
            state = jax.tree.map(lambda s: jnp.where(starts_B1, 0.0, s), state)
        after = step(state, x_BX)
        if real_B1 is None:
            return after, output(after)
        kept = jax.tree.map(lambda new, old: jnp.where(real_B1, new, old), after, state)
        return kept, jnp.where(real_B1, output(after), 0.0)

    starts_BT, real_BT = (None, None) if segments_BT is None else boundaries(segments_BT)
    by_time = jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), (x_BTX, _column(starts_BT), _column(real_BT)))
    last, y_TBH = lax.scan(body, initial, by_time, unroll=unroll)
    return jnp.swapaxes(y_TBH, 0, 1), last


def boundaries(segments_BT: Int[Array, "B T"]) -> tuple[Bool[Array, "B T"], Bool[Array, "B T"]]:
    """Where a document starts other than a row's first, and where there is no padding."""
    before_BT = jnp.concatenate([segments_BT[:, :1], segments_BT[:, :-1]], axis=1)
    real_BT = segments_BT > 0
    return real_BT & (segments_BT != before_BT), real_BT


def product(h_BH: Float[Array, "B H"], w_HGH: Float[Array, "H *G H"], x: Array) -> Float[Array, "B *G H"]:
    """h w, computed in the type of x, in float32."""
    return linear(h_BH.astype(x.dtype), w_HGH).astype(jnp.float32)


def _column(a_BT: Array | None) -> Array | None:
    return None if a_BT is None else a_BT[..., None]
