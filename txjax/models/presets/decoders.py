"""Decoders by the sizes that they are made of: GPT, Llama and OLMo 2."""

from __future__ import annotations

from typing import Any

from txjax.config import Attention, Model
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.heads.linear import LinearHead
from txjax.nn.initialisations import Normal
from txjax.ops.norms import LayerNorm, RMSNorm
from txjax.ops.positions import Learned, Rope


def gpt1(width: int = 768, num_layers: int = 12, num_heads: int = 12, *, context: int = 512, **more: Any) -> Model:
    """GPT-1: post-norm without a final norm, learned positions, GELU. Radford et al. 2018."""
    return gpt2(
        width,
        num_layers,
        num_heads,
        context=context,
        **{"norm_placement": "post", "init": Normal(scale_residual=False)} | more,
    )


def gpt2(
    width: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    *,
    context: int = 1024,
    bias: bool = True,
    **more: Any,
) -> Model:
    """GPT-2: pre-norm, learned positions, GELU (tanh), tied head, residual outputs scaled. Radford et al. 2019.

    bias: of every linear map and norm; nanoGPT's small recipes leave them out.
    """
    fields: dict[str, Any] = {
        "attention": Attention(num_heads=num_heads, qkv_bias=bias, output_bias=bias),
        "feedforward": Dense(hidden=4 * width, activation="gelu_tanh", bias=bias),
        "norm": LayerNorm(bias=bias),
        "position": Learned(),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def gpt3(width: int, num_layers: int, num_heads: int, *, context: int = 2048, **more: Any) -> Model:
    """GPT-3: GPT-2 with a longer context. Brown et al. 2020, table 2.1.

    Every layer attends to all tokens here; the paper alternates with locally banded layers whose band it does not
    give. Two rows of the table do not multiply out, and follow from the heads here: 13B is 40 x 128 = 5120 wide, and
    XL has 16 heads of 128.
    """
    return gpt2(width, num_layers, num_heads, context=context, **more)


def llama(
    width: int = 4096,
    num_layers: int = 32,
    num_heads: int = 32,
    *,
    hidden: int = 11008,
    num_kv_heads: int | None = None,
    context: int = 2048,
    theta: float = 10_000.0,
    eps: float = 1e-5,
    **more: Any,
) -> Model:
    """Llama: pre-norm RMSNorm, rotary positions, SwiGLU, no biases, a head of its own. Touvron et al. 2023."""
    fields: dict[str, Any] = {
        "attention": Attention(num_heads=num_heads, num_kv_heads=num_kv_heads, qkv_bias=False, output_bias=False),
        "feedforward": Dense(hidden=hidden, activation="swiglu", bias=False),
        "norm": RMSNorm(eps=eps),
        "position": Rope(theta=theta),
        "head": LinearHead(),
        "init": Normal(scale_residual=False),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def olmo2(
    width: int = 4096,
    num_layers: int = 32,
    num_heads: int = 32,
    *,
    num_kv_heads: int | None = None,
    context: int = 4096,
    theta: float = 500_000.0,
    eps: float = 1e-6,
    **more: Any,
) -> Model:
    """OLMo 2: Llama with norms on what a layer adds to the stream and not on what it reads, and on queries and keys, of
    all heads together. Team OLMo 2024, section 2.1.
    """
    attention = Attention(
        num_heads=num_heads, num_kv_heads=num_kv_heads, qk_norm="all", qkv_bias=False, output_bias=False
    )
    fields: dict[str, Any] = {"attention": attention, "norm_placement": "output"}
    return llama(width, num_layers, num_heads, context=context, theta=theta, eps=eps, **fields | more)
