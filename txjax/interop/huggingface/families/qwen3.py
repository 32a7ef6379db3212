"""Qwen3: a Llama with norms on queries and keys, and a head width of its own."""

from dataclasses import replace

from txjax.config import Attention
from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, LayerTypes, Rotary
from txjax.interop.table import Row
from txjax.models import presets

HEAD_NORMS = (
    Row("layers/attention/query_norm/gain", "model.layers.{layer}.self_attn.q_norm.weight", "H -> H"),
    Row("layers/attention/key_norm/gain", "model.layers.{layer}.self_attn.k_norm.weight", "H -> H"),
)
BASE = presets.llama(vocab_size=151936, eps=1e-6)

FAMILY = Family(
    model_type="qwen3",
    architecture="Qwen3ForCausalLM",
    prefix="model.",
    base=replace(BASE, attention=Attention(num_heads=32, qk_norm="head", qkv_bias=False, output_bias=False)),
    fields=(
        *llama.SIZES,
        *llama.DENSE_FIELDS,
        Rotary(),
        LayerTypes(switch="use_sliding_window"),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
    ),
    table=(*llama.OUTER, *llama.ATTENTION, *HEAD_NORMS, *llama.NORMS, *llama.DENSE),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
