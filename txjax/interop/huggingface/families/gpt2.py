"""GPT-2. Its Conv1D kernels lie input by output, and queries, keys and values in one tensor."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed
from txjax.interop.table import Row
from txjax.models import presets

ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}

FAMILY = Family(
    model_type="gpt2",
    architecture="GPT2LMHeadModel",
    prefix="transformer.",
    base=presets.gpt2(vocab_size=50257),
    fields=(
        Field("vocab_size", "vocab_size", 50257),
        Field("n_positions", "context", 1024),
        Field("n_embd", "width", 768),
        Field("n_layer", "num_layers", 12),
        Field("n_head", "attention.num_heads", 12),
        Field("n_inner", "feedforward.dense.hidden", None),
        Field("activation_function", "feedforward.dense.activation", "gelu_new", ACTIVATIONS),
        Field("layer_norm_epsilon", "norm.layer.eps", 1e-5),
        Field("tie_word_embeddings", "head.kind", True, {True: "tied", False: "linear"}),
        Fixed("scale_attn_weights", True),
        Fixed("scale_attn_by_inverse_layer_idx", False),
        Fixed("add_cross_attention", False),
    ),
    table=(
        Row("embedding/w", "transformer.wte.weight", "V D -> V D"),
        Row("position/table", "transformer.wpe.weight", "C D -> C D"),
        Row("layers/mixer_norm/gain", "transformer.h.{layer}.ln_1.weight", "D -> D"),
        Row("layers/mixer_norm/bias", "transformer.h.{layer}.ln_1.bias", "D -> D"),
        Row("layers/attention/query/w", "transformer.h.{layer}.attn.c_attn.weight", "D (+N H) -> D N H"),
        Row("layers/attention/key/w", "transformer.h.{layer}.attn.c_attn.weight", "D (+N H) -> D N H"),
        Row("layers/attention/value/w", "transformer.h.{layer}.attn.c_attn.weight", "D (+N H) -> D N H"),
        Row("layers/attention/query/b", "transformer.h.{layer}.attn.c_attn.bias", "(+N H) -> N H"),
        Row("layers/attention/key/b", "transformer.h.{layer}.attn.c_attn.bias", "(+N H) -> N H"),
        Row("layers/attention/value/b", "transformer.h.{layer}.attn.c_attn.bias", "(+N H) -> N H"),
        Row("layers/attention/out/w", "transformer.h.{layer}.attn.c_proj.weight", "(N H) D -> N H D"),
        Row("layers/attention/out/b", "transformer.h.{layer}.attn.c_proj.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", "transformer.h.{layer}.ln_2.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", "transformer.h.{layer}.ln_2.bias", "D -> D"),
        Row("layers/dense/in/w", "transformer.h.{layer}.mlp.c_fc.weight", "D F -> D F"),
        Row("layers/dense/in/b", "transformer.h.{layer}.mlp.c_fc.bias", "F -> F"),
        Row("layers/dense/out/w", "transformer.h.{layer}.mlp.c_proj.weight", "F D -> F D"),
        Row("layers/dense/out/b", "transformer.h.{layer}.mlp.c_proj.bias", "D -> D"),
        Row("final_norm/gain", "transformer.ln_f.weight", "D -> D"),
        Row("final_norm/bias", "transformer.ln_f.bias", "D -> D"),
        Row("head/w", "lm_head.weight", "V D -> D V"),
    ),
    copies=(("lm_head.weight", "transformer.wte.weight"),),
    buffers=(r"\.attn\.(masked_)?bias$",),  # causal masks of old files
)
