"""Attention by jax.nn.dot_product_attention: XLA's own form, and cuDNN's fused kernel on NVIDIA GPUs."""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.ops.masks import Bias, Keys, Mask
from txjax.schema import ConfigError


def library_attention(
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
    implementation: Literal["xla", "cudnn"],
) -> tuple[Float[Array, "B N T W"], None]:
    """See txjax.ops.attention. The library gives a query without keys the mean of all values: here it is zero."""
    if softcap is not None:
        raise ConfigError(f"attention.implementation={implementation} has no softcap: use plain or blockwise")
    if sinks_N is not None:
        raise ConfigError(f"attention.implementation={implementation} has no sinks: use recomputed or blockwise")
    if v_BKSW.shape[-1] != q_BNTH.shape[-1]:
        raise ConfigError(
            f"attention.implementation={implementation} needs values as wide as keys, got {v_BKSW.shape[-1]} and "
            f"{q_BNTH.shape[-1]}: use recomputed or blockwise"
        )
    if dropout is not None:
        raise ConfigError(
            f"attention.implementation={implementation} drops no attention weights: "
            "use plain or blockwise, or take attention out of model.dropout_sites"
        )
    if implementation == "cudnn" and jax.default_backend() != "gpu":
        raise ConfigError(f"attention.implementation=cudnn needs an NVIDIA GPU, found {jax.default_backend()}: use xla")
    visible = None if mask is None else mask(query_BT, key_S)
    q_BTNH, k_BSKH, v_BSKH = (jnp.swapaxes(x, 1, 2) for x in (q_BNTH, k_BKSH, v_BKSW))
    out_BTNH = jax.nn.dot_product_attention(
        q_BTNH,
        k_BSKH,
        v_BSKH,
        bias=None if bias is None else bias(query_BT, key_S).astype(q_BNTH.dtype),
        mask=visible,
        scale=1.0,
        implementation=implementation,
    )
    out_BNTH = jnp.swapaxes(out_BTNH, 1, 2)
    if visible is not None:
        out_BNTH = jnp.where(visible.any(-1, keepdims=True), out_BNTH, jnp.zeros((), out_BNTH.dtype))
    return out_BNTH, None


xla_attention = partial(library_attention, implementation="xla")
cudnn_attention = partial(library_attention, implementation="cudnn")
