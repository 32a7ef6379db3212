"""A cell over a sequence, with documents packed into rows and padding.

A cell is cut at its product with the hidden state: what is left of a step holds no weights. So their gradient, which
autodiff would add up step by step, is one product over all tokens after the backward scan.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.linear import linear

S = TypeVar("S")
Marks = tuple[Array, Array] | None  # `boundaries` as columns, of one step or of all


class Cell(NamedTuple):
    """join: the gates before their nonlinearities, from x_t and the product h_(t-1) w + b; leading axes as they come.
    step: the state after a token, from the state before and the gates. hidden: what of a state is shown and multiplied.
    """

    join: Callable[[Array, Array], Array]
    step: Callable[[Any, Array], Any]
    hidden: Callable[[Any], Array]


class Loop(NamedTuple):
    """A cell and how its steps are laid out. precision: of products, as it stands where the forward pass is traced."""

    cell: Cell
    unroll: int
    precision: str | None


def run(
    cell: Cell,
    x_BTX: Float[Array, "B T ..."],
    initial: S,
    w_HX: Float[Array, "H ..."],
    b_X: Float[Array, "..."] | None,
    segments_BT: Int[Array, "B T"] | None,
    unroll: int,
) -> tuple[Float[Array, "B T H"], S]:
    """The hidden states after each token, and the state after the last one.

    segments_BT: documents numbered from 1, or None for one a row. A document's first token finds a state of zeros;
    only a row's first token, whatever its document, finds `initial`. Padding, 0, leaves the state and shows zeros.
    """
    marks_TB1 = None
    if segments_BT is not None:
        starts_BT, real_BT = boundaries(segments_BT)
        marks_TB1 = starts_BT.T[..., None], real_BT.T[..., None]
    loop = Loop(cell, unroll, jax.config.jax_default_matmul_precision)  # type: ignore[attr-defined]
    scanned: Any = _scan(loop, jnp.swapaxes(x_BTX, 0, 1), initial, w_HX, b_X, marks_TB1)
    last, h_TBH = scanned
    if marks_TB1 is not None:
        h_TBH = jnp.where(marks_TB1[1], h_TBH, 0.0)
    return jnp.swapaxes(h_TBH, 0, 1), last


def boundaries(segments_BT: Int[Array, "B T"]) -> tuple[Bool[Array, "B T"], Bool[Array, "B T"]]:
    """Where a document starts other than a row's first, and where there is no padding."""
    before_BT = jnp.concatenate([segments_BT[:, :1], segments_BT[:, :-1]], axis=1)
    real_BT = segments_BT > 0
    return real_BT & (segments_BT != before_BT), real_BT


def wide(a: Array) -> Array:
    """In float32, or float64 where it is that."""
    return a.astype(jnp.promote_types(a.dtype, jnp.float32))


def split(gates_GH: Float[Array, "... G H"]) -> list[Float[Array, "... H"]]:
    """Each gate. Not by indexing, whose gradient is padded with zeros to all gates and added up."""
    gates = lax.split(gates_GH, (1,) * gates_GH.shape[-2], axis=gates_GH.ndim - 2)
    return [gate_1H.squeeze(-2) for gate_1H in gates]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _scan(
    loop: Loop, x_TBX: Array, initial: Any, w_HX: Array, b_X: Array | None, marks_TB1: Marks
) -> tuple[Any, Array]:
    """The last state, and all hidden ones."""

    def shown(state: Any, gates_BX: Array) -> Array:
        return loop.cell.hidden(state)

    return _steps(loop, shown, x_TBX, initial, w_HX, b_X, marks_TB1)


def _steps(
    loop: Loop, kept: Callable[..., Any], x_TBX: Array, initial: Any, w_HX: Array, b_X: Array | None, marks_TB1: Marks
) -> tuple[Any, Any]:
    """The last state, and of every step what is `kept` of the state after it and its gates."""

    def body(state: Any, now: tuple[Array, Marks]) -> tuple[Any, Any]:
        x_BX, marks_B1 = now
        state = _emptied(state, marks_B1)
        gates_BX = loop.cell.join(x_BX, _product(loop.cell.hidden(state), w_HX, b_X, x_BX.dtype))
        after = _advanced(loop.cell, state, gates_BX, marks_B1)
        return after, kept(after, gates_BX)

    return lax.scan(body, initial, (x_TBX, marks_TB1), unroll=loop.unroll)


def _product(h_H: Array, w_HX: Array, b_X: Array | None, dtype: Any) -> Array:
    """h w + b, the product in dtype, the sum in float32."""
    p_X = wide(linear(h_H.astype(dtype), w_HX))
    return p_X if b_X is None else p_X + b_X


def _emptied(state: Any, marks: Marks) -> Any:
    """Zeros where a document starts."""
    return state if marks is None else jax.tree.map(lambda s: jnp.where(marks[0], 0.0, s), state)


def _advanced(cell: Cell, state: Any, gates_BX: Array, marks: Marks) -> Any:
    """The state after a token; on padding, the one before."""
    after = cell.step(state, gates_BX)
    return after if marks is None else jax.tree.map(lambda new, old: jnp.where(marks[1], new, old), after, state)


def _forward(
    loop: Loop, x_TBX: Array, initial: Any, w_HX: Array, b_X: Array | None, marks_TB1: Marks
) -> tuple[tuple[Any, Array], Any]:
    def all_of_it(state: Any, gates_BX: Array) -> tuple[Any, Array]:
        return state, gates_BX

    last, kept = _steps(loop, all_of_it, x_TBX, initial, w_HX, b_X, marks_TB1)
    states, gates_TBX = checkpoint_name(kept, "product")  # kept under remat: to compute one again takes the whole scan
    empty_BX = jnp.zeros_like(x_TBX[0])  # its type and shape are all that is needed of x
    return (last, loop.cell.hidden(states)), (empty_BX, initial, w_HX, b_X, marks_TB1, states, gates_TBX)


def _backward(loop: Loop, saved: Any, cotangents: tuple[Any, Array]) -> tuple[Any, ...]:
    x_BX, initial, w_HX, b_X, marks_TB1, states, gates_TBX = saved
    join, hidden, dtype = loop.cell.join, loop.cell.hidden, x_BX.dtype
    before = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest[:-1]]), initial, states)
    before = _emptied(before, marks_TB1)
    # transposed once: inside the loop, products with few rows would do it at every step, at up to twice their cost
    w_XH = lax.optimization_barrier(w_HX.reshape(len(w_HX), -1).T)

    def body(dafter: Any, now: tuple[Any, ...]) -> tuple[Any, Array]:
        state, gates_BX, marks_B1, dh_BH = now

        def step(state: Any, gates_BX: Array) -> tuple[Any, Array]:
            after = _advanced(loop.cell, state, gates_BX, marks_B1)
            return after, hidden(after)

        dstate, dgates_BX = jax.vjp(step, state, gates_BX)[1]((dafter, dh_BH))
        (dp_BX,) = jax.vjp(partial(join, x_BX), wide(x_BX))[1](dgates_BX)
        (through,) = jax.vjp(hidden, state)[1](_product(dp_BX.reshape(len(dp_BX), -1), w_XH, None, dtype))
        return _emptied(jax.tree.map(jnp.add, dstate, through), marks_B1), dgates_BX

    def gates(x_TBX: Array, w_HX: Array, b_X: Array | None) -> Array:
        return join(x_TBX, _product(hidden(before), w_HX, b_X, dtype))

    with jax.default_matmul_precision(loop.precision):
        steps = (before, gates_TBX, marks_TB1, cotangents[1])
        dinitial, dgates_TBX = lax.scan(body, cotangents[0], steps, reverse=True, unroll=loop.unroll)
        x_TBX = jnp.broadcast_to(x_BX, (len(dgates_TBX), *x_BX.shape))
        dx_TBX, dw_HX, db_X = jax.vjp(gates, x_TBX, w_HX, b_X)[1](dgates_TBX)
    return dx_TBX, dinitial, dw_HX, db_X, None


_scan.defvjp(_forward, _backward)
