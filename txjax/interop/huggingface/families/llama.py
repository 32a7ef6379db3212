"""Llama 1 to 3. Rotary pairs are i and i + H/2: the published weights of Meta's own layout are permuted for it."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Rotary
from txjax.interop.table import Row
from txjax.models import presets

ACTIVATIONS = {"silu": "swiglu", "gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh"}
HEAD = {True: "tied", False: "linear"}

SIZES = (
    Field("vocab_size", "vocab_size"),
    Field("hidden_size", "width"),
    Field("num_hidden_layers", "num_layers"),
    Field("max_position_embeddings", "context"),
    Field("num_attention_heads", "attention.num_heads"),
    Field("num_key_value_heads", "attention.num_kv_heads", None),
    Field("head_dim", "attention.head_dim", None),
    Field("tie_word_embeddings", "head.kind", False, HEAD),
    Field("rms_norm_eps", "norm.rms.eps", 1e-6),
)
DENSE_FIELDS = (
    Field("intermediate_size", "feedforward.dense.hidden"),
    Field("hidden_act", "feedforward.dense.activation", "silu", ACTIVATIONS),
)

OUTER = (
    Row("embedding/w", "model.embed_tokens.weight", "V D -> V D"),
    Row("final_norm/gain", "model.norm.weight", "D -> D"),
    Row("head/w", "lm_head.weight", "V D -> D V"),
)
ATTENTION = (
    Row("layers/attention/query/w", "model.layers.{layer}.self_attn.q_proj.weight", "(N H) D -> D N H"),
    Row("layers/attention/query/b", "model.layers.{layer}.self_attn.q_proj.bias", "(N H) -> N H"),
    Row("layers/attention/key/w", "model.layers.{layer}.self_attn.k_proj.weight", "(K H) D -> D K H"),
    Row("layers/attention/key/b", "model.layers.{layer}.self_attn.k_proj.bias", "(K H) -> K H"),
    Row("layers/attention/value/w", "model.layers.{layer}.self_attn.v_proj.weight", "(K H) D -> D K H"),
    Row("layers/attention/value/b", "model.layers.{layer}.self_attn.v_proj.bias", "(K H) -> K H"),
    Row("layers/attention/out/w", "model.layers.{layer}.self_attn.o_proj.weight", "D (N H) -> N H D"),
    Row("layers/attention/out/b", "model.layers.{layer}.self_attn.o_proj.bias", "D -> D"),
)
NORMS = (
    Row("layers/mixer_norm/gain", "model.layers.{layer}.input_layernorm.weight", "D -> D"),
    Row("layers/feedforward_norm/gain", "model.layers.{layer}.post_attention_layernorm.weight", "D -> D"),
)
DENSE = (
    Row("layers/dense/gate/w", "model.layers.{layer}.mlp.gate_proj.weight", "F D -> D F"),
    Row("layers/dense/gate/b", "model.layers.{layer}.mlp.gate_proj.bias", "F -> F"),
    Row("layers/dense/in/w", "model.layers.{layer}.mlp.up_proj.weight", "F D -> D F"),
    Row("layers/dense/in/b", "model.layers.{layer}.mlp.up_proj.bias", "F -> F"),
    Row("layers/dense/out/w", "model.layers.{layer}.mlp.down_proj.weight", "D F -> F D"),
    Row("layers/dense/out/b", "model.layers.{layer}.mlp.down_proj.bias", "D -> D"),
)
COPIES = (("lm_head.weight", "model.embed_tokens.weight"),)
BUFFERS = (r"\.rotary_emb\.inv_freq$",)

FAMILY = Family(
    model_type="llama",
    architecture="LlamaForCausalLM",
    prefix="model.",
    base=presets.llama(vocab_size=32000),
    fields=(
        *SIZES,
        *DENSE_FIELDS,
        Rotary(),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
        Field("mlp_bias", "feedforward.dense.bias", False),
    ),
    table=(*OUTER, *ATTENTION, *NORMS, *DENSE),
    copies=COPIES,
    buffers=BUFFERS,
)
