"""Qwen2 and Qwen2.5: a Llama with biases on queries, keys and values alone."""

from dataclasses import replace

from txjax.config import Attention
from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import LayerTypes, Rotary
from txjax.models import presets

BASE = presets.llama(vocab_size=151936, eps=1e-6)

FAMILY = Family(
    model_type="qwen2",
    architecture="Qwen2ForCausalLM",
    prefix="model.",
    base=replace(BASE, attention=Attention(num_heads=32, qkv_bias=True, output_bias=False)),
    fields=(*llama.SIZES, *llama.DENSE_FIELDS, Rotary(), LayerTypes(switch="use_sliding_window")),
    table=(*llama.OUTER, *llama.ATTENTION, *llama.NORMS, *llama.DENSE),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
