"""Mistral: a Llama whose tokens see the last sliding_window tokens, or all."""

from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Rotary, Window
from txjax.models import presets

FAMILY = Family(
    model_type="mistral",
    architecture="MistralForCausalLM",
    prefix="model.",
    base=presets.llama(vocab_size=32000),
    fields=(*llama.SIZES, *llama.DENSE_FIELDS, Rotary(), Window(default=4096)),
    table=(*llama.OUTER, *llama.ATTENTION, *llama.NORMS, *llama.DENSE),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
