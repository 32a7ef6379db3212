"""T5, and its version 1.1: gated, and with a head of its own. The bias of the distances lies in the first layer of each
stack there, and serves all of them; here it is the stack's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.tied import Tied
from txjax.schema import flatten

FEEDFORWARDS = {"relu": "relu", "gated-gelu": "geglu_tanh", "gated-silu": "swiglu", "gelu_new": "gelu_tanh"}


@dataclass(frozen=True)
class Depths:
    """As many layers in the decoder as in the encoder where it has no number of its own."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        own = config.get("num_decoder_layers")
        return {
            "encoder.num_layers": config["num_layers"],
            "num_layers": config["num_layers"] if own is None else own,
        }

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {"num_layers": flatten(model).get("encoder.num_layers"), "num_decoder_layers": model.num_layers}


@dataclass(frozen=True)
class TiedHead:
    """A head of its own is told by tie_word_embeddings=false, or in files of transformers 5, which always says true,
    by scale_decoder_outputs=false.
    """

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        tied = config.get("tie_word_embeddings", True) and config.get("scale_decoder_outputs", True)
        return {"head": Tied(scale="rsqrt_width") if tied else LinearHead()}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {"tie_word_embeddings": model.head.tied, "scale_decoder_outputs": model.head.tied}


def attention(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        Row(f"{ours}/query/w", f"{theirs}.q.weight", "(N H) D -> D N H"),
        Row(f"{ours}/key/w", f"{theirs}.k.weight", "(K H) D -> D K H"),
        Row(f"{ours}/value/w", f"{theirs}.v.weight", "(K H) D -> D K H"),
        Row(f"{ours}/out/w", f"{theirs}.o.weight", "D (N H) -> N H D"),
    )


def dense(ours: str, theirs: str) -> tuple[Row, ...]:
    inward, gate = f"{ours}/dense/in/w", f"{ours}/dense/gate/w"
    return (
        Row(gate, f"{theirs}.DenseReluDense.wi_0.weight", "F D -> D F"),
        Row(inward, f"{theirs}.DenseReluDense.wi.weight", "F D -> D F"),
        Row(inward, f"{theirs}.DenseReluDense.wi_1.weight", "F D -> D F", beside=gate),
        Row(f"{ours}/dense/out/w", f"{theirs}.DenseReluDense.wo.weight", "D F -> F D"),
    )


def stack(ours: str, theirs: str, last: int, inner: Callable[[str, str], tuple[Row, ...]]) -> tuple[Row, ...]:
    """The rows that encoder and decoder both have; the feed-forward is number `last` of the sublayers, `inner` makes
    its rows.
    """
    first, feedforward = f"{theirs}.block.{{layer}}.layer.0", f"{theirs}.block.{{layer}}.layer.{last}"
    bias = f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return (
        Row(f"{ours}position/bias", bias, "R N -> R N"),
        Row(f"{ours}layers/mixer_norm/gain", f"{first}.layer_norm.weight", "D -> D"),
        *attention(f"{ours}layers/attention", f"{first}.SelfAttention"),
        Row(f"{ours}layers/feedforward_norm/gain", f"{feedforward}.layer_norm.weight", "D -> D"),
        *inner(f"{ours}layers", feedforward),
        Row(f"{ours}final_norm/gain", f"{theirs}.final_layer_norm.weight", "D -> D"),
    )


CROSS = "decoder.block.{layer}.layer.1"


def table(inner: Callable[[str, str], tuple[Row, ...]]) -> tuple[Row, ...]:
    return (
        Row("embedding/w", "shared.weight", "V D -> V D"),
        *stack("encoder/", "encoder", 1, inner),
        *stack("", "decoder", 2, inner),
        Row("layers/cross_norm/gain", f"{CROSS}.layer_norm.weight", "D -> D"),
        *attention("layers/cross", f"{CROSS}.EncDecAttention"),
        Row("head/w", "lm_head.weight", "V D -> D V"),
    )


def sizes(width: int, num_heads: int) -> tuple[Field, ...]:
    """Of every family with T5's attention; the two numbers are what their code takes where a config has none."""
    return (
        Field("vocab_size", "vocab_size", 32128),
        Field("d_model", "width", width),
        Field("num_heads", "attention.num_heads", num_heads),
        Field("d_kv", "attention.head_dim", 64),
        Field("relative_attention_num_buckets", "position.relative.buckets", 32),
        Field("relative_attention_max_distance", "position.relative.max_distance", 128),
        Field("layer_norm_epsilon", "norm.rms.eps", 1e-6),
    )


COPIES = (
    ("encoder.embed_tokens.weight", "shared.weight"),
    ("decoder.embed_tokens.weight", "shared.weight"),
    ("lm_head.weight", "shared.weight"),
)
BUFFERS = (r"EncDecAttention\.relative_attention_bias",)  # in old files, and of no use there
FREE = ("context",)  # distances have no end, and config.json none of a sequence
FAMILY = Family(
    model_type="t5",
    architecture="T5ForConditionalGeneration",
    base=presets.t5(vocab_size=32128),
    fields=(
        *sizes(width=512, num_heads=8),
        Field("d_ff", "feedforward.dense.hidden", 2048),
        Field("feed_forward_proj", "feedforward.dense.activation", "relu", FEEDFORWARDS),
        Depths(),
        TiedHead(),
    ),
    table=table(dense),
    copies=COPIES,
    buffers=BUFFERS,
    free=FREE,
)
