"""Attention that keeps no weights for its backward pass, and skips keys that causality hides."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from txjax.ops.attention.plain import HIDDEN, plain_attention
from txjax.ops.masks import And, Bias, Causal, Keys, Mask

MOST_BLOCKS = 4  # of queries: the work of causal attention falls to 1/2 + 1/(2 blocks)
LEAST_QUERIES = 64  # of a block: smaller products cost more than they save

Blocks = tuple[tuple[int, int, int], ...]


def recomputed_attention(
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
    """See txjax.ops.attention. The backward pass computes the weights again, as in Dao et al. 2022, section 3.1.

    Each of a few blocks of queries meets the keys that causality lets it see. With a bias, softcap or dropout this is
    plain attention.
    """
    if bias is not None or softcap is not None or dropout is not None:
        where: dict[str, Any] = {"query_BT": query_BT, "key_S": key_S, "mask": mask, "bias": bias}
        more: dict[str, Any] = {"softcap": softcap, "sinks_N": sinks_N, "dropout": dropout, "block_size": block_size}
        return plain_attention(q_BNTH, k_BKSH, v_BKSW, **where, **more)[0], None
    B, N, T, H = q_BNTH.shape
    K, S = k_BKSH.shape[1:3]
    q_BKGTH = q_BNTH.reshape(B, K, N // K, T, H)
    precision = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
    sinks_KG11 = None if sinks_N is None else sinks_N.reshape(K, N // K, 1, 1)
    y_BKGTW: Any = _attend(q_BKGTH, k_BKSH, v_BKSW, sinks_KG11, query_BT, mask, _blocks(T, S, mask), precision)
    return y_BKGTW.reshape(B, N, T, v_BKSW.shape[-1]), None


def _blocks(T: int, S: int, mask: Mask | None) -> Blocks:
    """First query, end of the queries, and end of the keys of each block."""
    if T != S or not _is_causal(mask):  # a cache: where the queries lie among the keys is a traced number
        return ((0, T, S),)
    size = max(LEAST_QUERIES, -(-T // MOST_BLOCKS))
    return tuple((first, min(first + size, T), min(first + size, T)) for first in range(0, T, size))


def _is_causal(mask: Mask | None) -> bool:
    return isinstance(mask, Causal) or (isinstance(mask, And) and (_is_causal(mask.left) or _is_causal(mask.right)))


@partial(jax.custom_vjp, nondiff_argnums=(6, 7))
def _attend(
    q_BKGTH: Array,
    k_BKSH: Array,
    v_BKSW: Array,
    sinks_KG11: Array | None,
    query_BT: Array,
    mask: Mask | None,
    blocks: Blocks,
    precision: Any,
) -> Array:
    return _forward(q_BKGTH, k_BKSH, v_BKSW, sinks_KG11, query_BT, mask, blocks, precision)[0]


def _forward(q_BKGTH, k_BKSH, v_BKSW, sinks_KG11, query_BT, mask, blocks, precision):
    parts = []
    for first, end, keys in blocks:
        q, k, v = q_BKGTH[..., first:end, :], k_BKSH[:, :, :keys], v_BKSW[:, :, :keys]
        e, total, _ = _exponentials(q, k, sinks_KG11, query_BT[:, first:end], mask, precision)
        parts.append(jnp.einsum("BKGTS,BKSW->BKGTW", e.astype(v.dtype), v, precision=precision) / total.astype(v.dtype))
    y_BKGTW = checkpoint_name(parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=-2), "product")
    return y_BKGTW, (q_BKGTH, k_BKSH, v_BKSW, sinks_KG11, query_BT, mask, y_BKGTW)


def _exponentials(q, k, sinks_KG11, query_BT, mask, precision):
    """exp(score - the row's largest), their sum in each row, or 1 where all are hidden and all exponentials 0, and of
    that sum the sink's part.
    """
    s = jnp.einsum("BKGTH,BKSH->BKGTS", q, k, precision=precision, preferred_element_type=jnp.float32)
    if mask is not None:
        visible = mask(query_BT, jnp.arange(k.shape[2]))
        B, N, T, S = visible.shape
        grouped = (B, 1, 1, T, S) if N == 1 else (B, *s.shape[1:3], T, S)
        s = jnp.where(visible.reshape(grouped), s, HIDDEN)
    largest = jnp.maximum(s.max(-1, keepdims=True), HIDDEN / 2 if sinks_KG11 is None else sinks_KG11)
    e = jnp.exp(s - largest)
    total = e.sum(-1, keepdims=True)
    if sinks_KG11 is None:
        return e, jnp.where(total == 0, 1.0, total), None
    sunk = jnp.exp(sinks_KG11 - largest)
    return e, total + sunk, sunk


def _backward(blocks, precision, saved, dy_BKGTW):
    """For weights p = e / total and dp = dy v^T: ds = p (dp - sum_S(p dp)), and sum_S(p dp) = sum_W(dy y). A sink is a
    key with dp = 0.
    """
    q_BKGTH, k_BKSH, v_BKSW, sinks_KG11, query_BT, mask, y_BKGTW = saved
    along_y = (dy_BKGTW * y_BKGTW).sum(-1, keepdims=True, dtype=jnp.float32)
    dq, dk, dv = [], jnp.zeros_like(k_BKSH), jnp.zeros_like(v_BKSW)
    dsinks = None if sinks_KG11 is None else jnp.zeros_like(sinks_KG11)
    for first, end, keys in blocks:
        q, k, v = q_BKGTH[..., first:end, :], k_BKSH[:, :, :keys], v_BKSW[:, :, :keys]
        e, total, sunk = _exponentials(q, k, sinks_KG11, query_BT[:, first:end], mask, precision)
        if sunk is not None:
            dsinks = dsinks - (sunk / total * along_y[..., first:end, :]).sum((0, 3), keepdims=True)[0]
        dy = dy_BKGTW[..., first:end, :] / total.astype(v.dtype)
        de = jnp.einsum("BKGTW,BKSW->BKGTS", dy, v, precision=precision, preferred_element_type=jnp.float32)
        ds = (e * (de - along_y[..., first:end, :] / total)).astype(q.dtype)
        dq.append(jnp.einsum("BKGTS,BKSH->BKGTH", ds, k, precision=precision))
        dk = dk.at[:, :, :keys].add(_over_queries(ds, q, precision))
        dv = dv.at[:, :, :keys].add(_over_queries(e.astype(v.dtype), dy, precision))
    return dq[0] if len(dq) == 1 else jnp.concatenate(dq, axis=-2), dk, dv, dsinks, None, None


def _over_queries(w_BKGTS, x_BKGTH, precision):
    """w^T x, (B, K, S, H): x is transposed, not the larger w, by which a CPU's product contracts its left side's last
    axis (see txjax.ops.linear).
    """
    B, K, G, T, S = w_BKGTS.shape
    x_BKHT = jnp.moveaxis(x_BKGTH.reshape(B, K, G * T, -1), 2, 3)
    if jax.default_backend() == "cpu":
        x_BKHT = lax.optimization_barrier(x_BKHT)
    y_BKHS = jnp.einsum("BKHT,BKTS->BKHS", x_BKHT, w_BKGTS.reshape(B, K, G * T, S), precision=precision)
    if jax.default_backend() == "cpu":
        y_BKHS = lax.optimization_barrier(y_BKHS)
    return jnp.moveaxis(y_BKHS, 2, 3)


_attend.defvjp(_forward, _backward)
