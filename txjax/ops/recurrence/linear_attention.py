"""Attention without a softmax, whose keys and values add up to a state of fixed size."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from txjax.ops.recurrence.sequence import boundaries


class LinearState(NamedTuple):
    """Of the keys so far, for each of K heads: sum f(k) v^T, (B, K, H, V), and sum f(k), (B, K, H), both float32."""

    values: Array
    keys: Array


def feature(x: Array) -> Array:
    """f(x) = elu(x) + 1, positive, in float32."""
    return jax.nn.elu(x.astype(jnp.float32)) + 1.0


def linear_attention_step(
    state: LinearState,
    q_BNH: Float[Array, "B N H"],
    k_BKH: Float[Array, "B K H"],
    v_BKV: Float[Array, "B K V"],
) -> tuple[Float[Array, "B N V"], LinearState]:
    """S' = S + f(k) v^T, z' = z + f(k), y = f(q) S' / f(q) z', and the new state. Each of K key heads serves N/K
    neighbouring query heads. Katharopoulos et al. 2020, equations 16 to 20.
    """
    B, N, H = q_BNH.shape
    f_BKH = feature(k_BKH)
    values = state.values + jnp.einsum("BKH,BKV->BKHV", f_BKH, v_BKV.astype(jnp.float32))
    keys = state.keys + f_BKH
    q_BKGH = feature(q_BNH).reshape(B, f_BKH.shape[1], -1, H)
    mixed_BKGV = jnp.einsum("BKGH,BKHV->BKGV", q_BKGH, values)
    total_BKG = jnp.einsum("BKGH,BKH->BKG", q_BKGH, keys)
    return (mixed_BKGV / total_BKG[..., None]).reshape(B, N, -1), LinearState(values, keys)


def linear_attention(
    q_BNTH: Float[Array, "B N T H"],
    k_BKTH: Float[Array, "B K T H"],
    v_BKTV: Float[Array, "B K T V"],
    initial: LinearState,
    *,
    chunk: int,
    segments_BT: Int[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B N T V"], LinearState]:
    """`linear_attention_step` along a sequence: what each query finds, and the last state. segments_BT: see rnn.

    y_t = sum_s f(q_t) f(k_s) v_s / sum_s f(q_t) f(k_s) over s <= t. Tokens of one `chunk` meet each other as in
    attention, and those before it as a state: work and memory are linear in T, with T / chunk steps. Hua et al. 2022.
    """
    (B, N, T, H), K = q_BNTH.shape, k_BKTH.shape[1]
    chunk = min(chunk, T)
    if segments_BT is None:
        document_BT, real_BT = jnp.zeros((1, T), jnp.int32), jnp.ones((1, T), bool)
    else:
        starts_BT, real_BT = boundaries(segments_BT)
        document_BT = jnp.cumsum(starts_BT, axis=1)
    f_q, f_k = feature(q_BNTH).reshape(B, K, N // K, T, H), feature(k_BKTH) * real_BT[:, None, :, None]
    triangle_TT = jnp.tri(chunk, dtype=bool)

    def advance(carry: tuple[LinearState, Array], piece: tuple[Array, ...]) -> tuple[tuple[LinearState, Array], Array]:
        (before, last_B1), (q_BKGTH, k_BKTH, v_BKTV, document_BT) = carry, piece
        together_BTT = (document_BT[:, :, None] == document_BT[:, None]) & triangle_TT
        scores_BKGTS = jnp.einsum("BKGTH,BKSH->BKGTS", q_BKGTH, k_BKTH) * together_BTT[:, None, None]
        goes_on_BT = (document_BT == last_B1).astype(jnp.float32)
        q_past = q_BKGTH * goes_on_BT[:, None, None, :, None]
        mixed = jnp.einsum("BKGTS,BKSV->BKGTV", scores_BKGTS, v_BKTV)
        mixed = mixed + jnp.einsum("BKGTH,BKHV->BKGTV", q_past, before.values)
        total = scores_BKGTS.sum(-1) + jnp.einsum("BKGTH,BKH->BKGT", q_past, before.keys)
        y_BKGTV = mixed / jnp.where(total == 0, 1.0, total)[..., None]
        now_B1 = document_BT[:, -1:]
        kept_B = goes_on_BT[:, -1]  # whether the document that was going on still does at the end of the chunk
        k_BKTH = k_BKTH * (document_BT == now_B1)[:, None, :, None]
        after = LinearState(
            before.values * kept_B[:, None, None, None] + jnp.einsum("BKTH,BKTV->BKHV", k_BKTH, v_BKTV),
            before.keys * kept_B[:, None, None] + k_BKTH.sum(2),
        )
        return (after, now_B1), y_BKGTV

    pieces = (f_q, f_k, v_BKTV.astype(jnp.float32), document_BT)
    cut = tuple(_chunks(x, chunk, axis) for x, axis in zip(pieces, (3, 2, 2, 1), strict=True))
    (last, _), y = lax.scan(advance, (initial, jnp.zeros_like(document_BT[:, :1])), cut)
    y_BKGTV = jnp.moveaxis(y, 0, 3).reshape(B, K, N // K, -1, v_BKTV.shape[-1])[:, :, :, :T]
    y_BNTV = y_BKGTV.reshape(B, N, T, -1) * real_BT[:, None, :, None]
    return y_BNTV.astype(q_BNTH.dtype), last


def _chunks(x: Array, size: int, axis: int) -> Array:
    """x cut along an axis into pieces of one size, which become axis 0. The last is filled up: numbers of documents
    with their last one, all else with zeros, which add nothing.
    """
    count = -(-x.shape[axis] // size)
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, count * size - x.shape[axis])
    x = jnp.pad(x, widths, mode="edge") if x.dtype == jnp.int32 else jnp.pad(x, widths)
    return jnp.moveaxis(x.reshape(*x.shape[:axis], count, size, *x.shape[axis + 1 :]), axis, 0)
