"""The ragged product: rows that lie group by group, each group times a matrix of its own."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.linear import precision_now


def ragged(x_MI: Float[Array, "M I"], w_EIO: Float[Array, "E I O"], sizes_E: Int[Array, " E"]) -> Float[Array, "M O"]:
    """y_m = x_m w_e, where e is the group of row m: the first sizes_E[0] rows are group 0's, and so on, M in all.

    On a CPU, where lax.ragged_dot multiplies every row by the matrices of all groups, groups are cut into blocks of as
    many rows, the last one of each filled up with zeros, and a loop goes over the blocks (as the kernels of Gale et al.
    2022, MegaBlocks). The result goes by the checkpoint name "product", for remat policies, as that of ops/linear.py.
    """
    if jax.default_backend() != "cpu":
        return checkpoint_name(lax.ragged_dot(x_MI, w_EIO, sizes_E), "product")
    return _ragged(*_alike(x_MI, w_EIO, sizes_E), precision_now())


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _ragged(x_MI: Array, w_EIO: Array, sizes_E: Array, precision: Any) -> Array:
    return _forward(x_MI, w_EIO, sizes_E, precision)[0]


def _forward(x_MI: Array, w_EIO: Array, sizes_E: Array, precision: Any) -> tuple[Array, tuple[Array, ...]]:
    y_MO = checkpoint_name(ragged_product(x_MI, w_EIO, sizes_E, precision=precision), "product")
    return y_MO, (x_MI, w_EIO, sizes_E)


def _backward(precision: Any, saved: tuple[Array, ...], dy_MO: Array) -> tuple[Array, Array, None]:
    x_MI, w_EIO, sizes_E = saved
    dx_MI = ragged_product(dy_MO, jnp.swapaxes(w_EIO, 1, 2), sizes_E, precision=precision)
    return dx_MI, ragged_outer(x_MI, dy_MO, sizes_E, precision=precision), None


_ragged.defvjp(_forward, _backward)


# Programs of their own, by whose names models/costs.py counts each as the one product of M rows that it stands for.
PROGRAMS = ("ragged_product", "ragged_outer")


@partial(jax.jit, static_argnames="precision")
def ragged_product(x_MI: Array, w_EIO: Array, sizes_E: Array, *, precision: Any) -> Float[Array, "M O"]:
    """x_m w_e, see `ragged`."""
    blocks = Blocks.of(sizes_E, len(x_MI))

    def product(block: tuple[Array, Array]) -> Array:
        x_CI, group = block
        return lax.dot(x_CI, w_EIO[group], precision=precision)

    y_PCO = lax.map(product, (blocks.cut(x_MI), blocks.group_P))
    return y_PCO.reshape(-1, y_PCO.shape[-1])[blocks.place_M]


@partial(jax.jit, static_argnames="precision")
def ragged_outer(x_MI: Array, dy_MO: Array, sizes_E: Array, *, precision: Any) -> Float[Array, "E I O"]:
    """The sum of x_m^T dy_m over the rows of each group: the gradient of its matrix."""
    blocks = Blocks.of(sizes_E, len(x_MI))

    def add(sum_EIO: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
        x_CI, dy_CO, group = block
        return sum_EIO.at[group].add(lax.dot_general(x_CI, dy_CO, (((0,), (0,)), ((), ())), precision=precision)), None

    shape = (len(sizes_E), x_MI.shape[1], dy_MO.shape[1])
    empty_EIO, _ = _alike(jnp.zeros(shape, dy_MO.dtype), dy_MO)
    return lax.scan(add, empty_EIO, (blocks.cut(x_MI), blocks.cut(dy_MO), blocks.group_P))[0]


def rows_of_a_block(rows: int, groups: int) -> int:
    """C, a power of two: a block costs the copy of a matrix, about as much as multiplying 20 rows by it, and a group's
    last block is half empty, so that the waste is least at sqrt(40 M / E).
    """
    return min(2 ** round(math.log2(max(40 * rows / groups, 1)) / 2), 256)


class Blocks(NamedTuple):
    """group_P: each block's group; blocks past the last are empty, as many as it takes for P to be the same whatever
    the sizes. row_PC: the row at each place. real_PC: whether there is one. place_M: of each row.
    """

    group_P: Int[Array, " P"]
    row_PC: Int[Array, "P C"]
    real_PC: Bool[Array, "P C"]
    place_M: Int[Array, " M"]

    @classmethod
    def of(cls, sizes_E: Int[Array, " E"], rows: int) -> Blocks:
        E, C = len(sizes_E), rows_of_a_block(rows, len(sizes_E))
        P = min(rows, (rows + min(E, rows) * (C - 1)) // C)
        stop_E = jnp.cumsum(sizes_E)
        start_E = stop_E - sizes_E
        blocks_E = -(-sizes_E // C)
        after_E = jnp.cumsum(blocks_E)
        first_E = after_E - blocks_E

        def owner(number: Array, ends_E: Array) -> Array:
            return jnp.minimum(jnp.searchsorted(ends_E, number, side="right"), E - 1)

        group_P = owner(jnp.arange(P), after_E)
        row_PC = (start_E[group_P] + (jnp.arange(P) - first_E[group_P]) * C)[:, None] + jnp.arange(C)
        group_M = owner(jnp.arange(rows), stop_E)
        place_M = first_E[group_M] * C + jnp.arange(rows) - start_E[group_M]
        return cls(group_P, row_PC, row_PC < stop_E[group_P][:, None], place_M)

    def cut(self, x_MI: Float[Array, "M I"]) -> Float[Array, "P C I"]:
        """The rows at their places, zeros where there is none."""
        return jnp.where(self.real_PC[..., None], x_MI[jnp.minimum(self.row_PC, len(x_MI) - 1)], 0)


def _alike(*arrays: Array) -> tuple[Array, ...]:
    """The arrays, each said to differ between the devices that any of them differs between: inside shard_map a loop,
    and a gradient of one's own, want that spelt out.
    """
    own = [jax.typeof(x).manual_axis_type.varying for x in arrays]
    every = frozenset().union(*own)
    return tuple(
        lax.pcast(x, tuple(sorted(every - axes)), to="varying") if every - axes else x
        for x, axes in zip(arrays, own, strict=True)
    )
