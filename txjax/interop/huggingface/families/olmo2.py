"""OLMo 2: a Llama with norms on what is added to the stream, and on queries and keys, each over all heads."""

from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Rotary
from txjax.interop.table import Row
from txjax.models import presets

LAYER = "model.layers.{layer}"

FAMILY = Family(
    model_type="olmo2",
    architecture="Olmo2ForCausalLM",
    prefix="model.",
    base=presets.olmo2(vocab_size=100_352),
    fields=(
        *(field for field in llama.SIZES if field.theirs != "rms_norm_eps"),
        Field("rms_norm_eps", "norm.rms.eps", 1e-5),
        *llama.DENSE_FIELDS,
        Rotary(),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
    ),
    table=(
        *llama.OUTER,
        *llama.ATTENTION,
        Row("layers/attention/query_norm/gain", f"{LAYER}.self_attn.q_norm.weight", "(N H) -> N H"),
        Row("layers/attention/key_norm/gain", f"{LAYER}.self_attn.k_norm.weight", "(K H) -> K H"),
        Row("layers/mixer_output_norm/gain", f"{LAYER}.post_attention_layernorm.weight", "D -> D"),
        Row("layers/feedforward_output_norm/gain", f"{LAYER}.post_feedforward_layernorm.weight", "D -> D"),
        *llama.DENSE,
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
