"""Mixtral: Mistral with a mixture of experts in each layer, each expert's matrices tensors of their own."""

from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Rotary, Window
from txjax.interop.table import Row
from txjax.models import presets

EXPERT = "model.layers.{layer}.block_sparse_moe.experts.{E}"

FAMILY = Family(
    model_type="mixtral",
    architecture="MixtralForCausalLM",
    prefix="model.",
    base=presets.mixtral(vocab_size=32000),
    fields=(
        *llama.SIZES,
        Field("num_local_experts", "feedforward.mixture.num_experts", 8),
        Field("num_experts_per_tok", "feedforward.mixture.top_k", 2),
        Field("intermediate_size", "feedforward.mixture.hidden"),
        Field("hidden_act", "feedforward.mixture.activation", "silu", llama.ACTIVATIONS),
        Rotary(theta=1_000_000.0),
        Window(),
    ),
    table=(
        *llama.OUTER,
        *llama.ATTENTION,
        *llama.NORMS,
        Row("layers/mixture/router/w", "model.layers.{layer}.block_sparse_moe.gate.weight", "E D -> D E"),
        Row("layers/mixture/gate/w", f"{EXPERT}.w1.weight", "F D -> E D F"),
        Row("layers/mixture/out/w", f"{EXPERT}.w2.weight", "D F -> E F D"),
        Row("layers/mixture/in/w", f"{EXPERT}.w3.weight", "F D -> E D F"),
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
