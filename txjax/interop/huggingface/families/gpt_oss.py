"""gpt-oss: sinks, windows in every other layer, and mixtures whose experts lie in one tensor, gate and input in turn.

The published weights are in 4 bits (MXFP4) and must be made wide before: transformers does that where its
quantization_config asks to dequantize.
"""

from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, LayerTypes, Rotary
from txjax.interop.table import Row
from txjax.models import presets
from txjax.ops.positions import YarnScaling

MLP = "model.layers.{layer}.mlp"
OWN = ("num_key_value_heads", "head_dim", "rms_norm_eps")  # fields with other defaults than a Llama's

FAMILY = Family(
    model_type="gpt_oss",
    architecture="GptOssForCausalLM",
    prefix="model.",
    base=presets.gpt_oss(vocab_size=201_088),
    fields=(
        *(field for field in llama.SIZES if field.theirs not in OWN),
        Field("num_key_value_heads", "attention.num_kv_heads", 8),
        Field("head_dim", "attention.head_dim", 64),
        Field("rms_norm_eps", "norm.rms.eps", 1e-5),
        Field("num_local_experts", "feedforward.mixture.num_experts", 128, also="num_experts"),
        Field("num_experts_per_tok", "feedforward.mixture.top_k", 4),
        Field("intermediate_size", "feedforward.mixture.hidden"),
        Fixed("hidden_act", "silu"),
        Fixed("swiglu_alpha", 1.702),
        Fixed("swiglu_limit", 7.0),
        Rotary(theta=150_000.0, scaling=YarnScaling(factor=32.0, truncate=False)),
        LayerTypes(period=(True, False), default=128),
        Field("attention_bias", "attention.qkv_bias", True),
        Field("attention_bias", "attention.output_bias", True),
    ),
    table=(
        *llama.OUTER,
        *llama.ATTENTION,
        Row("layers/attention/sinks", "model.layers.{layer}.self_attn.sinks", "N -> N"),
        *llama.NORMS,
        Row("layers/mixture/router/w", f"{MLP}.router.weight", "E D -> D E"),
        Row("layers/mixture/router/b", f"{MLP}.router.bias", "E -> E"),
        Row("layers/mixture/gate/w", f"{MLP}.experts.gate_up_proj", "E D (F +1) -> E D F"),
        Row("layers/mixture/in/w", f"{MLP}.experts.gate_up_proj", "E D (F +1) -> E D F"),
        Row("layers/mixture/gate/b", f"{MLP}.experts.gate_up_proj_bias", "E (F +1) -> E F"),
        Row("layers/mixture/in/b", f"{MLP}.experts.gate_up_proj_bias", "E (F +1) -> E F"),
        Row("layers/mixture/out/w", f"{MLP}.experts.down_proj", "E F D -> E F D"),
        Row("layers/mixture/out/b", f"{MLP}.experts.down_proj_bias", "E D -> E D"),
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
