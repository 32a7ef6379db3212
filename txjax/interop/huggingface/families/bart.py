"""BART: two rows of each position table before the first position, and a bias of the logits that is a buffer there."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, Same
from txjax.interop.table import Row
from txjax.models import presets

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "swish": "silu",
    "silu": "silu",
}
FIELDS = (  # of every family with BART's code
    Field("d_model", "width", 1024),
    Field("encoder_layers", "encoder.num_layers", 12),
    Field("decoder_layers", "num_layers", 12),
    Field("decoder_attention_heads", "attention.num_heads", 16),
    Field("decoder_ffn_dim", "feedforward.dense.hidden", 4096),
    Field("activation_function", "feedforward.dense.activation", "gelu", ACTIVATIONS),
    Field("max_position_embeddings", "context", 1024),
    Field("scale_embedding", "embedding.tokens.scale", False, {False: "none", True: "sqrt_width"}),
    Same("encoder_attention_heads", "decoder_attention_heads", "attention.num_heads"),
    Same("encoder_ffn_dim", "decoder_ffn_dim", "feedforward.dense.hidden"),
    Fixed("tie_word_embeddings", True),
    # of older files, where another model than theirs has the same code
    Fixed("normalize_before", False),
    Fixed("add_final_layer_norm", False),
)


def attention(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        Row(f"{ours}/query/w", f"{theirs}.q_proj.weight", "(N H) D -> D N H"),
        Row(f"{ours}/query/b", f"{theirs}.q_proj.bias", "(N H) -> N H"),
        Row(f"{ours}/key/w", f"{theirs}.k_proj.weight", "(K H) D -> D K H"),
        Row(f"{ours}/key/b", f"{theirs}.k_proj.bias", "(K H) -> K H"),
        Row(f"{ours}/value/w", f"{theirs}.v_proj.weight", "(K H) D -> D K H"),
        Row(f"{ours}/value/b", f"{theirs}.v_proj.bias", "(K H) -> K H"),
        Row(f"{ours}/out/w", f"{theirs}.out_proj.weight", "D (N H) -> N H D"),
        Row(f"{ours}/out/b", f"{theirs}.out_proj.bias", "D -> D"),
    )


def norm(ours: str, theirs: str) -> tuple[Row, ...]:
    return Row(f"{ours}/gain", f"{theirs}.weight", "D -> D"), Row(f"{ours}/bias", f"{theirs}.bias", "D -> D")


def embedded(ours: str, theirs: str) -> tuple[Row, ...]:
    """The rows of what comes before the layers of encoder and decoder."""
    return (
        Row(f"{ours}position/table", f"{theirs}.embed_positions.weight", "C D -> C D"),
        *norm(f"{ours}embedding_norm", f"{theirs}.layernorm_embedding"),
    )


def layers(ours: str, theirs: str) -> tuple[Row, ...]:
    """The rows that the layers of encoder and decoder both have."""
    layer = f"{theirs}.layers.{{layer}}"
    return (
        *attention(f"{ours}layers/attention", f"{layer}.self_attn"),
        *norm(f"{ours}layers/mixer_norm", f"{layer}.self_attn_layer_norm"),
        Row(f"{ours}layers/dense/in/w", f"{layer}.fc1.weight", "F D -> D F"),
        Row(f"{ours}layers/dense/in/b", f"{layer}.fc1.bias", "F -> F"),
        Row(f"{ours}layers/dense/out/w", f"{layer}.fc2.weight", "D F -> F D"),
        Row(f"{ours}layers/dense/out/b", f"{layer}.fc2.bias", "D -> D"),
        *norm(f"{ours}layers/feedforward_norm", f"{layer}.final_layer_norm"),
    )


CROSS = (
    *attention("layers/cross", "model.decoder.layers.{layer}.encoder_attn"),
    *norm("layers/cross_norm", "model.decoder.layers.{layer}.encoder_attn_layer_norm"),
)
HEAD = Row("head/b", "final_logits_bias", "1 V -> V")
COPIES = (
    ("model.encoder.embed_tokens.weight", "model.shared.weight"),
    ("model.decoder.embed_tokens.weight", "model.shared.weight"),
    ("lm_head.weight", "model.shared.weight"),
)
ZEROS = ("final_logits_bias",)  # files of the bare model have none
FAMILY = Family(
    model_type="bart",
    architecture="BartForConditionalGeneration",
    prefix="model.",
    base=presets.bart(vocab_size=50265),
    fields=(
        Field("vocab_size", "vocab_size", 50265),
        *FIELDS,
        Fixed("normalize_embedding", True),
        Fixed("static_position_embeddings", False),
    ),
    table=(
        Row("embedding/w", "model.shared.weight", "V D -> V D"),
        *embedded("encoder/", "model.encoder"),
        *layers("encoder/", "model.encoder"),
        *embedded("", "model.decoder"),
        *layers("", "model.decoder"),
        *CROSS,
        HEAD,
    ),
    copies=COPIES,
    zeros=ZEROS,
)
