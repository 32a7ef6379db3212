"""Mixtures of experts: Switch, Mixtral, DeepSeek, gpt-oss."""

from __future__ import annotations

from typing import Any

from txjax.config import Attention, Encoder, Layer, Model
from txjax.models.presets.decoders import llama
from txjax.models.presets.encoder_decoders import t5
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.feedforwards.mixture import Mixture
from txjax.nn.mixers.attention import SelfAttention
from txjax.nn.mixers.latent import Latent
from txjax.ops.positions import Rope, YarnScaling


def switch(
    width: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    *,
    hidden: int = 3072,
    num_experts: int = 8,
    **more: Any,
) -> Model:
    """Switch Transformer: T5 with a mixture in every other layer, one expert a token, a capacity and a balancing loss.
    Fedus et al. 2021.
    """
    mixture = Mixture(
        num_experts, 1, hidden, "relu", bias=False, renormalise=False, dispatch="capacity", capacity_factor=1.25
    )
    pattern = (Layer(), Layer(feedforward=mixture))
    fields = {"encoder": Encoder(num_layers, pattern=pattern), "pattern": pattern}
    return t5(width, num_layers, num_heads, hidden=hidden, **fields | more)


def mixtral(
    width: int = 4096,
    num_layers: int = 32,
    num_heads: int = 32,
    *,
    hidden: int = 14336,
    num_experts: int = 8,
    top_k: int = 2,
    num_kv_heads: int | None = 8,
    **more: Any,
) -> Model:
    """Mixtral: Llama with a mixture in each layer, weights by a softmax over the chosen experts. Jiang et al. 2024."""
    mixture = Mixture(num_experts, top_k, hidden, "swiglu", bias=False, gate="softmax_chosen", balance=0.02)
    fields: dict[str, Any] = {"feedforward": mixture}
    return llama(width, num_layers, num_heads, num_kv_heads=num_kv_heads, **fields | more)


def deepseek_moe(
    width: int = 2048,
    num_layers: int = 28,
    num_heads: int = 16,
    *,
    hidden: int = 10944,
    expert_hidden: int = 1408,
    num_experts: int = 64,
    top_k: int = 6,
    num_shared: int = 2,
    **more: Any,
) -> Model:
    """DeepSeekMoE: Llama with many narrow experts, shared ones beside them, and a dense first layer. Dai et al. 2024.

    hidden: of the dense layer.
    """
    fields: dict[str, Any] = {
        "first_layers": (Layer(feedforward=Dense(hidden=hidden, activation="swiglu", bias=False)),),
        "feedforward": Mixture(
            num_experts, top_k, expert_hidden, "swiglu", bias=False,
            num_shared=num_shared, renormalise=False, balance=0.001,
        ),
        "eps": 1e-6,
    }  # fmt: skip
    return llama(width, num_layers, num_heads, **fields | more)


def deepseek_v3(
    width: int = 7168,
    num_layers: int = 61,
    num_heads: int = 128,
    *,
    hidden: int = 18432,
    expert_hidden: int = 2048,
    num_experts: int = 256,
    q_rank: int | None = 1536,
    kv_rank: int = 512,
    context: int = 4096,
    **more: Any,
) -> Model:
    """DeepSeek-V3 without its layer for the token after the next: latent attention, three dense layers, then mixtures
    of 256 experts in 8 groups and a shared one, sigmoid gates, balanced by a bias. DeepSeek-AI 2024 (V3), section 4.2.

    hidden: of the dense layers.
    """
    dense = Dense(hidden=hidden, activation="swiglu", bias=False)
    fields: dict[str, Any] = {
        "mixer": Latent(q_rank=q_rank, kv_rank=kv_rank, rope_dim=64, value_dim=128),
        "attention": Attention(num_heads=num_heads, head_dim=128 + 64, qkv_bias=False, output_bias=False),
        "first_layers": (Layer(feedforward=dense),) * 3,
        "feedforward": Mixture(
            num_experts, 8, expert_hidden, "swiglu", bias=False, num_shared=1, gate="sigmoid", routed_scale=2.5,
            num_groups=8, top_groups=4, balance=0.0001, balance_over="sequence", bias_speed=0.001,
        ),
        "position": Rope(pairs="interleaved"),
        "eps": 1e-6,
    }  # fmt: skip
    return llama(width, num_layers, num_heads, context=context, **fields | more)


def gpt_oss(
    width: int = 2880,
    num_layers: int = 24,
    num_heads: int = 64,
    *,
    hidden: int = 2880,
    num_experts: int = 32,
    num_kv_heads: int = 8,
    window: int = 128,
    context: int = 131_072,
    **more: Any,
) -> Model:
    """gpt-oss: mixtures of clamped SwiGLU experts, biases everywhere but in norms and head, a sink for each attention
    head, a window in every other layer, YaRN. OpenAI 2025, section 2.

    hidden: of an expert.
    """
    fields: dict[str, Any] = {
        "attention": Attention(num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=64, sinks=True),
        "pattern": (Layer(mixer=SelfAttention(window=window)), Layer()),
        "feedforward": Mixture(
            num_experts, 4, hidden, "swiglu_clamped", bias=True, router_bias=True, gate="softmax_chosen"
        ),
        "position": Rope(theta=150_000.0, scaling=YarnScaling(factor=32.0, original_context=4096, truncate=False)),
    }
    return llama(width, num_layers, num_heads, context=context, **fields | more)
