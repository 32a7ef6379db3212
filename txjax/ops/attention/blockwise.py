"""Attention a block of queries against a block of keys at a time, with a running softmax."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.attention.plain import HIDDEN, mix, scores
from txjax.ops.dropout import dropout as drop
from txjax.ops.masks import Bias, Keys, Mask


def blockwise_attention(
    q_BNTH: Float[Array, "B N T H"],
    k_BKSH: Float[Array, "B K S H"],
    v_BKSW: Float[Array, "B K S W"],
    *,
    query_BT: Int[Array, "#B T"],
    key_S: Keys,
    mask: Mask | None,
    bias: Bias | None,
    softcap: float | None,
    sinks_N: Float[Array, " N"] | None,
    dropout: tuple[Array, float | Array] | None,
    block_size: int,
) -> tuple[Float[Array, "B N T W"], None]:
    """See txjax.ops.attention. Memory grows with T + S, forward and backward; the work is that of plain.

    Each block of queries is a checkpoint: its backward pass computes its scores again, against one block of keys
    after the other. Rabe and Staats 2021; Dao et al. 2022.
    """
    T, S = q_BNTH.shape[2], k_BKSH.shape[2]
    queries, keys = min(block_size, T), min(block_size, S)
    q_blocks = _blocks(q_BNTH, queries, axis=2)
    index_blocks = _blocks(query_BT, queries, axis=1)
    k_blocks, v_blocks = (_blocks(x, keys, axis=2) for x in (k_BKSH, v_BKSW))
    first_keys = jnp.arange(0, k_blocks.shape[0] * keys, keys)
    key_blocks = _blocks(key_S, keys, axis=key_S.ndim - 1)
    sink_N1 = jnp.full((1, 1), HIDDEN) if sinks_N is None else sinks_N[:, None]

    @jax.checkpoint
    def query_block(row: tuple[Array, Array, Array]) -> Array:
        number, q, index = row

        @jax.checkpoint
        def key_block(carry: tuple[Array, Array, Array], column: tuple[Array, Array, Array, Array]):
            out, total, top = carry
            k, v, key_index, first = column
            inside = first + jnp.arange(keys) < S
            s = scores(q, k, None if bias is None else bias(index, key_index), softcap)
            visible = inside if mask is None else mask(index, key_index) & inside
            s = jnp.where(visible, s, HIDDEN)
            new_top = jnp.maximum(top, jax.lax.stop_gradient(s.max(-1)))
            e = jnp.where(visible, jnp.exp(s - new_top[..., None]), 0.0)
            shrink = jnp.exp(top - new_top)
            kept = e
            if dropout is not None:
                key = jax.random.fold_in(jax.random.fold_in(dropout[0], number), first)
                kept = drop(e, key, dropout[1])
            out = out * shrink[..., None] + mix(kept, v).astype(jnp.float32)
            return (out, total * shrink + e.sum(-1), new_top), None

        zero = jnp.zeros(q.shape[:-1], jnp.float32)
        top = zero + jax.lax.stop_gradient(sink_N1)
        total = zero if sinks_N is None else zero + jnp.exp(sink_N1 - top)  # 1, with the sink's gradient
        start = (jnp.zeros((*q.shape[:-1], v_BKSW.shape[-1]), jnp.float32), total, top)
        (out, total, _), _ = jax.lax.scan(key_block, start, (k_blocks, v_blocks, key_blocks, first_keys))
        return (out / jnp.where(total == 0, 1.0, total)[..., None]).astype(v_BKSW.dtype)

    out = jax.lax.map(query_block, (jnp.arange(q_blocks.shape[0]), q_blocks, index_blocks))
    out = jnp.moveaxis(out, 0, 2)
    return out.reshape(*out.shape[:2], -1, out.shape[-1])[:, :, :T], None


def _blocks(x: Array, size: int, axis: int) -> Array:
    """x cut along an axis into blocks of one size, the last filled with zeros; the blocks become axis 0."""
    length = x.shape[axis]
    count = -(-length // size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * size - length)
    x = jnp.pad(x, widths)
    x = x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :])
    return jnp.moveaxis(x, axis, 0)
