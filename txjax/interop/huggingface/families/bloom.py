"""BLOOM: slopes for positions, a norm on the embeddings; of each head, query, key and value in turn."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.feedforwards.dense import Dense
from txjax.ops.positions import Alibi

LAYER = "transformer.h.{layer}"
FUSED = f"{LAYER}.self_attention.query_key_value"

FAMILY = Family(
    model_type="bloom",
    architecture="BloomForCausalLM",
    prefix="transformer.",
    base=presets.gpt2(vocab_size=250880, feedforward=Dense(), position=Alibi(), embedding_norm=True),
    fields=(
        Field("vocab_size", "vocab_size"),
        Field("hidden_size", "width"),
        Field("n_layer", "num_layers"),
        Field("n_head", "attention.num_heads"),
        Field("seq_length", "context", 2048),  # of training; their code has no use for it
        Field("layer_norm_epsilon", "norm.layer.eps", 1e-5),
        Field("tie_word_embeddings", "head.kind", True, {True: "tied", False: "linear"}),
        Fixed("apply_residual_connection_post_layernorm", False),
    ),
    table=(
        Row("embedding/w", "transformer.word_embeddings.weight", "V D -> V D"),
        Row("embedding_norm/gain", "transformer.word_embeddings_layernorm.weight", "D -> D"),
        Row("embedding_norm/bias", "transformer.word_embeddings_layernorm.bias", "D -> D"),
        Row("layers/mixer_norm/gain", f"{LAYER}.input_layernorm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{LAYER}.input_layernorm.bias", "D -> D"),
        Row("layers/attention/query/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/key/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/value/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/query/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/key/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/value/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/out/w", f"{LAYER}.self_attention.dense.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{LAYER}.self_attention.dense.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{LAYER}.post_attention_layernorm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{LAYER}.post_attention_layernorm.bias", "D -> D"),
        Row("layers/dense/in/w", f"{LAYER}.mlp.dense_h_to_4h.weight", "F D -> D F"),
        Row("layers/dense/in/b", f"{LAYER}.mlp.dense_h_to_4h.bias", "F -> F"),
        Row("layers/dense/out/w", f"{LAYER}.mlp.dense_4h_to_h.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{LAYER}.mlp.dense_4h_to_h.bias", "D -> D"),
        Row("final_norm/gain", "transformer.ln_f.weight", "D -> D"),
        Row("final_norm/bias", "transformer.ln_f.bias", "D -> D"),
        Row("head/w", "lm_head.weight", "V D -> D V"),
    ),
    copies=(("lm_head.weight", "transformer.word_embeddings.weight"),),
)
