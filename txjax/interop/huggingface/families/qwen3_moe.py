"""Qwen3 with a mixture of experts in each layer."""

from dataclasses import replace

from txjax.interop.huggingface.families import llama, qwen3
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, LayerTypes, Rotary
from txjax.interop.table import Row
from txjax.nn.feedforwards.mixture import Mixture

EXPERT = "model.layers.{layer}.mlp.experts.{E}"

FAMILY = Family(
    model_type="qwen3_moe",
    architecture="Qwen3MoeForCausalLM",
    prefix="model.",
    base=replace(qwen3.FAMILY.base, feedforward=Mixture(activation="swiglu", bias=False, balance=0.001)),
    fields=(
        *llama.SIZES,
        Field("num_experts", "feedforward.mixture.num_experts", 128, also="num_local_experts"),
        Field("num_experts_per_tok", "feedforward.mixture.top_k", 8),
        Field("norm_topk_prob", "feedforward.mixture.renormalise", False),
        Field("moe_intermediate_size", "feedforward.mixture.hidden", 768),
        Field("hidden_act", "feedforward.mixture.activation", "silu", llama.ACTIVATIONS),
        Fixed("decoder_sparse_step", 1),
        Fixed("mlp_only_layers", []),
        Rotary(),
        LayerTypes(switch="use_sliding_window"),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
    ),
    table=(
        *llama.OUTER,
        *llama.ATTENTION,
        *qwen3.HEAD_NORMS,
        *llama.NORMS,
        Row("layers/mixture/router/w", "model.layers.{layer}.mlp.gate.weight", "E D -> D E"),
        Row("layers/mixture/gate/w", f"{EXPERT}.gate_proj.weight", "F D -> E D F"),
        Row("layers/mixture/in/w", f"{EXPERT}.up_proj.weight", "F D -> E D F"),
        Row("layers/mixture/out/w", f"{EXPERT}.down_proj.weight", "D F -> E F D"),
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
