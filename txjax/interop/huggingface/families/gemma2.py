"""Gemma 2. Gains are kept as their distance from 1; every second layer sees a window; scores and logits are capped."""

from dataclasses import replace

from txjax.config import Attention
from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, LayerTypes, QueryScale, Rotary
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.embeddings.tokens import Tokens

NORMS = {
    "layers/mixer_norm/gain": "model.layers.{layer}.input_layernorm.weight",
    "layers/mixer_output_norm/gain": "model.layers.{layer}.post_attention_layernorm.weight",
    "layers/feedforward_norm/gain": "model.layers.{layer}.pre_feedforward_layernorm.weight",
    "layers/feedforward_output_norm/gain": "model.layers.{layer}.post_feedforward_layernorm.weight",
    "final_norm/gain": "model.norm.weight",
}
BASE = replace(
    presets.llama(vocab_size=256000, eps=1e-6, head="tied", norm_placement="sandwich"),
    embedding=Tokens(scale="sqrt_width"),
    attention=Attention(num_heads=8, head_dim=256, qkv_bias=False, output_bias=False),
)

FAMILY = Family(
    model_type="gemma2",
    architecture="Gemma2ForCausalLM",
    prefix="model.",
    base=BASE,
    fields=(
        *(field for field in llama.SIZES if field.theirs not in ("head_dim", "tie_word_embeddings")),
        Field("head_dim", "attention.head_dim", 256),
        Field("tie_word_embeddings", "head.kind", True, llama.HEAD),
        Field("intermediate_size", "feedforward.dense.hidden"),
        Field("hidden_activation", "feedforward.dense.activation", "gelu_pytorch_tanh", llama.ACTIVATIONS),
        Rotary(),
        LayerTypes(period=(True, False)),
        QueryScale("query_pre_attn_scalar", 256),
        Field("attn_logit_softcapping", "attention.softcap", 50.0),
        Field("final_logit_softcapping", "logit_softcap", 30.0),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
    ),
    table=(
        *(row for row in llama.OUTER if row.ours not in NORMS),
        *llama.ATTENTION,
        *(Row(ours, theirs, "D -> D", shift=1.0) for ours, theirs in NORMS.items()),
        *llama.DENSE,
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
