"""GPT-NeoX and Pythia: attention and feed-forward read the same stream; of each head, query, key and value in turn."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Rotary
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.linear import LinearHead
from txjax.ops.positions import Rope

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_fast": "gelu_tanh", "relu": "relu"}
FUSED = "gpt_neox.layers.{layer}.attention.query_key_value"

FAMILY = Family(
    model_type="gpt_neox",
    architecture="GPTNeoXForCausalLM",
    prefix="gpt_neox.",
    base=presets.gpt2(vocab_size=50432, position=Rope(fraction=0.25), topology="parallel", head=LinearHead()),
    fields=(
        Field("vocab_size", "vocab_size"),
        Field("hidden_size", "width"),
        Field("num_hidden_layers", "num_layers"),
        Field("max_position_embeddings", "context"),
        Field("num_attention_heads", "attention.num_heads"),
        Field("intermediate_size", "feedforward.dense.hidden"),
        Field("hidden_act", "feedforward.dense.activation", "gelu", ACTIVATIONS),
        Field("layer_norm_eps", "norm.layer.eps", 1e-5),
        Field("use_parallel_residual", "topology", True, {True: "parallel", False: "sequential"}),
        Field("tie_word_embeddings", "head.kind", False, {True: "tied", False: "linear"}),
        Field("attention_bias", "attention.qkv_bias", True),
        Field("attention_bias", "attention.output_bias", True),
        Rotary(theta_name="rotary_emb_base", fraction_name="rotary_pct", fraction=0.25),
    ),
    table=(
        Row("embedding/w", "gpt_neox.embed_in.weight", "V D -> V D"),
        Row("layers/mixer_norm/gain", "gpt_neox.layers.{layer}.input_layernorm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", "gpt_neox.layers.{layer}.input_layernorm.bias", "D -> D"),
        Row("layers/attention/query/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/key/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/value/w", f"{FUSED}.weight", "(N +1 H) D -> D N H"),
        Row("layers/attention/query/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/key/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/value/b", f"{FUSED}.bias", "(N +1 H) -> N H"),
        Row("layers/attention/out/w", "gpt_neox.layers.{layer}.attention.dense.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", "gpt_neox.layers.{layer}.attention.dense.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", "gpt_neox.layers.{layer}.post_attention_layernorm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", "gpt_neox.layers.{layer}.post_attention_layernorm.bias", "D -> D"),
        Row("layers/dense/in/w", "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.weight", "F D -> D F"),
        Row("layers/dense/in/b", "gpt_neox.layers.{layer}.mlp.dense_h_to_4h.bias", "F -> F"),
        Row("layers/dense/out/w", "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.weight", "D F -> F D"),
        Row("layers/dense/out/b", "gpt_neox.layers.{layer}.mlp.dense_4h_to_h.bias", "D -> D"),
        Row("final_norm/gain", "gpt_neox.final_layer_norm.weight", "D -> D"),
        Row("final_norm/bias", "gpt_neox.final_layer_norm.bias", "D -> D"),
        Row("head/w", "embed_out.weight", "V D -> D V"),
    ),
    copies=(("embed_out.weight", "gpt_neox.embed_in.weight"),),
    buffers=(r"\.attention\.(masked_)?bias$", r"\.rotary_emb\.inv_freq$"),
)
