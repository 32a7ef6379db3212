"""OPT: GPT with ReLU, and two rows of the position table before the first position."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, Same
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.feedforwards.dense import Dense
from txjax.ops.positions import Learned

LAYER = "model.decoder.layers.{layer}"

FAMILY = Family(
    model_type="opt",
    architecture="OPTForCausalLM",
    prefix="model.",
    base=presets.gpt2(vocab_size=50272, feedforward=Dense(activation="relu"), position=Learned(offset=2)),
    fields=(
        Field("vocab_size", "vocab_size"),
        Field("hidden_size", "width"),
        Field("num_hidden_layers", "num_layers"),
        Field("max_position_embeddings", "context"),
        Field("num_attention_heads", "attention.num_heads"),
        Field("ffn_dim", "feedforward.dense.hidden"),
        Field("activation_function", "feedforward.dense.activation", "relu", {"relu": "relu", "gelu": "gelu"}),
        Field("enable_bias", "attention.qkv_bias", True),
        Field("enable_bias", "attention.output_bias", True),
        Field("enable_bias", "feedforward.dense.bias", True),
        Field("tie_word_embeddings", "head.kind", True, {True: "tied", False: "linear"}),
        Same("word_embed_proj_dim", "hidden_size", "width"),
        Fixed("do_layer_norm_before", True),
        Fixed("layer_norm_elementwise_affine", True),
        Fixed("_remove_final_layer_norm", False),
    ),
    table=(
        Row("embedding/w", "model.decoder.embed_tokens.weight", "V D -> V D"),
        Row("position/table", "model.decoder.embed_positions.weight", "C D -> C D"),
        Row("layers/mixer_norm/gain", f"{LAYER}.self_attn_layer_norm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{LAYER}.self_attn_layer_norm.bias", "D -> D"),
        Row("layers/attention/query/w", f"{LAYER}.self_attn.q_proj.weight", "(N H) D -> D N H"),
        Row("layers/attention/query/b", f"{LAYER}.self_attn.q_proj.bias", "(N H) -> N H"),
        Row("layers/attention/key/w", f"{LAYER}.self_attn.k_proj.weight", "(N H) D -> D N H"),
        Row("layers/attention/key/b", f"{LAYER}.self_attn.k_proj.bias", "(N H) -> N H"),
        Row("layers/attention/value/w", f"{LAYER}.self_attn.v_proj.weight", "(N H) D -> D N H"),
        Row("layers/attention/value/b", f"{LAYER}.self_attn.v_proj.bias", "(N H) -> N H"),
        Row("layers/attention/out/w", f"{LAYER}.self_attn.out_proj.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{LAYER}.self_attn.out_proj.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{LAYER}.final_layer_norm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{LAYER}.final_layer_norm.bias", "D -> D"),
        Row("layers/dense/in/w", f"{LAYER}.fc1.weight", "F D -> D F"),
        Row("layers/dense/in/b", f"{LAYER}.fc1.bias", "F -> F"),
        Row("layers/dense/out/w", f"{LAYER}.fc2.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{LAYER}.fc2.bias", "D -> D"),
        Row("final_norm/gain", "model.decoder.final_layer_norm.weight", "D -> D"),
        Row("final_norm/bias", "model.decoder.final_layer_norm.bias", "D -> D"),
        Row("head/w", "lm_head.weight", "V D -> D V"),
    ),
    copies=(("lm_head.weight", "model.decoder.embed_tokens.weight"),),
)
