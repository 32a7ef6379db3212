"""Phi-3 mini with its short context: a Llama whose projections are fused, heads of all kinds in one tensor."""

from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Rotary, Window, Written
from txjax.interop.table import Row
from txjax.models import presets

FUSED = "model.layers.{layer}.self_attn.qkv_proj.weight"
GATED = "model.layers.{layer}.mlp.gate_up_proj.weight"

FAMILY = Family(
    model_type="phi3",
    architecture="Phi3ForCausalLM",
    prefix="model.",
    base=presets.llama(vocab_size=32064),
    fields=(
        *(field for field in llama.SIZES if field.theirs != "head_dim"),
        *llama.DENSE_FIELDS,
        Rotary(fraction_name="partial_rotary_factor"),
        Window(),
        Written("pad_token_id", None),  # 32000 else, which a smaller vocabulary does not have
    ),
    table=(
        *llama.OUTER,
        Row("layers/attention/query/w", FUSED, "(+N H) D -> D N H"),
        Row("layers/attention/key/w", FUSED, "(+N H) D -> D N H"),
        Row("layers/attention/value/w", FUSED, "(+N H) D -> D N H"),
        *(row for row in llama.ATTENTION if row.ours == "layers/attention/out/w"),
        *llama.NORMS,
        Row("layers/dense/gate/w", GATED, "+F D -> D F"),
        Row("layers/dense/in/w", GATED, "+F D -> D F"),
        Row("layers/dense/out/w", "model.layers.{layer}.mlp.down_proj.weight", "D F -> F D"),
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
