"""Causal convolution along a sequence."""

from __future__ import annotations

import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float, Int

from txjax.ops.linear import linear


def causal_convolution(
    x_BTD: Float[Array, "B T D"],
    before_BPD: Float[Array, "B P D"],
    w: Float[Array, "J D E"] | Float[Array, "J D"],
    b_E: Float[Array, " E"],
    *,
    segments_BT: Int[Array, "B T"] | None = None,
) -> tuple[Float[Array, "B T E"], Float[Array, "B P D"]]:
    """y_t = b + sum_j x_(t - J + 1 + j) w_j, and the P = J - 1 inputs that the next tokens will need.

    w of three axes is a full convolution, whose w_j are matrices; of two axes a depthwise one, each channel alone.
    before_BPD: the inputs before the first; zeros at a text's start. segments_BT: documents numbered from 1, or None
    for one a row; a document sees zeros before itself, and padding, 0, is no input and gives zeros. What comes before
    a row belongs to its first document.

    van den Oord et al. 2016; depthwise: Wu et al. 2019.
    """
    J, T = w.shape[0], x_BTD.shape[1]
    inputs_BSD = jnp.concatenate([before_BPD.astype(x_BTD.dtype), x_BTD], axis=1)
    seen_BTJD = jnp.stack([inputs_BSD[:, j : j + T] for j in range(J)], axis=2)
    after_BPD = inputs_BSD[:, T:]
    if segments_BT is not None:
        own_BTJ = _own(segments_BT, J)
        seen_BTJD = jnp.where(own_BTJ[..., None], seen_BTJD, 0)
        after_BPD = _after(seen_BTJD, before_BPD, segments_BT)
    if w.ndim == 3:
        y_BTE = linear(seen_BTJD, w, b_E, contract=2)
    else:
        y_BTE = checkpoint_name((seen_BTJD * w.astype(x_BTD.dtype)).sum(2), "product") + b_E.astype(x_BTD.dtype)
    if segments_BT is not None:
        y_BTE = jnp.where((segments_BT > 0)[..., None], y_BTE, 0)
    return y_BTE, after_BPD.astype(before_BPD.dtype)


def _own(segments_BT: Int[Array, "B T"], J: int) -> Array:
    """Which of the J inputs up to each token are of its own document, (B, T, J)."""
    T = segments_BT.shape[1]
    lead_BP = jnp.repeat(segments_BT[:, :1], J - 1, axis=1)
    segments_BS = jnp.concatenate([lead_BP, segments_BT], axis=1)
    return jnp.stack([segments_BS[:, j : j + T] == segments_BT for j in range(J)], axis=2)


def _after(seen_BTJD: Array, before_BPD: Array, segments_BT: Array) -> Float[Array, "B P D"]:
    """The last J - 1 inputs of a row's last document, padding left out; what came before where all is padding."""
    places_BT = jnp.where(segments_BT > 0, jnp.arange(segments_BT.shape[1]), -1)
    last_B = places_BT.max(axis=1)
    last_BPD = jnp.take_along_axis(seen_BTJD, jnp.maximum(last_B, 0)[:, None, None, None], axis=1)[:, 0, 1:]
    return jnp.where((last_B >= 0)[:, None, None], last_BPD, before_BPD.astype(last_BPD.dtype))
