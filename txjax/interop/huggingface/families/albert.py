"""ALBERT: an encoder whose layers share their parameters, over an embedding of a width of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.families.bert import ACTIVATIONS
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.pooler import PoolerHead

EMBEDDINGS, LAYER = "albert.embeddings", "albert.encoder.albert_layer_groups.0.albert_layers.0"
ATTENTION = f"{LAYER}.attention"


@dataclass(frozen=True)
class EmbeddingSize:
    """The width of the embedding, which is projected even where it is that of the layers."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"embedding.tokens.width": config.get("embedding_size", 128)}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {"embedding_size": model.embedding_width}


FAMILY = Family(
    model_type="albert",
    prefix="albert.",
    base=presets.albert(vocab_size=30000),
    fields=(
        Field("vocab_size", "vocab_size", 30000),
        Field("hidden_size", "width", 4096),
        Field("num_hidden_layers", "num_layers", 12),
        Field("num_attention_heads", "attention.num_heads", 64),
        Field("intermediate_size", "feedforward.dense.hidden", 16384),
        Field("hidden_act", "feedforward.dense.activation", "gelu_new", ACTIVATIONS),
        Field("max_position_embeddings", "context", 512),
        Field("type_vocab_size", "embedding.tokens.types", 2),
        Field("layer_norm_eps", "norm.layer.eps", 1e-12),
        EmbeddingSize(),
        Fixed("num_hidden_groups", 1),
        Fixed("inner_group_num", 1),
        Fixed("position_embedding_type", "absolute"),
        Fixed("tie_word_embeddings", True),
        Heads(
            {
                "AlbertModel": PoolerHead(),
                "AlbertForPreTraining": Masked(next_sentence=True),
                "AlbertForMaskedLM": Masked(),
                "AlbertForSequenceClassification": Classes(pooler="tanh"),
                "AlbertForTokenClassification": LinearHead(outputs=2, bias=True),
            },
            ACTIVATIONS,
            default="gelu_new",
        ),
    ),
    table=(
        Row("embedding/w", f"{EMBEDDINGS}.word_embeddings.weight", "V E -> V E"),
        Row("position/table", f"{EMBEDDINGS}.position_embeddings.weight", "C E -> C E"),
        Row("embedding/types", f"{EMBEDDINGS}.token_type_embeddings.weight", "R E -> R E"),
        Row("embedding_norm/gain", f"{EMBEDDINGS}.LayerNorm.weight", "E -> E"),
        Row("embedding_norm/bias", f"{EMBEDDINGS}.LayerNorm.bias", "E -> E"),
        Row("embedding_projection/w", "albert.encoder.embedding_hidden_mapping_in.weight", "D E -> E D"),
        Row("embedding_projection/b", "albert.encoder.embedding_hidden_mapping_in.bias", "D -> D"),
        Row("layers/attention/query/w", f"{ATTENTION}.query.weight", "(N H) D -> D N H"),
        Row("layers/attention/query/b", f"{ATTENTION}.query.bias", "(N H) -> N H"),
        Row("layers/attention/key/w", f"{ATTENTION}.key.weight", "(K H) D -> D K H"),
        Row("layers/attention/key/b", f"{ATTENTION}.key.bias", "(K H) -> K H"),
        Row("layers/attention/value/w", f"{ATTENTION}.value.weight", "(K H) D -> D K H"),
        Row("layers/attention/value/b", f"{ATTENTION}.value.bias", "(K H) -> K H"),
        Row("layers/attention/out/w", f"{ATTENTION}.dense.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{ATTENTION}.dense.bias", "D -> D"),
        Row("layers/mixer_norm/gain", f"{ATTENTION}.LayerNorm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{ATTENTION}.LayerNorm.bias", "D -> D"),
        Row("layers/dense/in/w", f"{LAYER}.ffn.weight", "F D -> D F"),
        Row("layers/dense/in/b", f"{LAYER}.ffn.bias", "F -> F"),
        Row("layers/dense/out/w", f"{LAYER}.ffn_output.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{LAYER}.ffn_output.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{LAYER}.full_layer_layer_norm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{LAYER}.full_layer_layer_norm.bias", "D -> D"),
        Row("pooler/dense/w", "albert.pooler.weight", "E D -> D E"),
        Row("pooler/dense/b", "albert.pooler.bias", "E -> E"),
        Row("next_sentence/pooler/dense/w", "albert.pooler.weight", "E D -> D E"),
        Row("next_sentence/pooler/dense/b", "albert.pooler.bias", "E -> E"),
        Row("next_sentence/classifier/w", "sop_classifier.classifier.weight", "C D -> D C"),
        Row("next_sentence/classifier/b", "sop_classifier.classifier.bias", "C -> C"),
        Row("head/dense/w", "predictions.dense.weight", "E D -> D E"),
        Row("head/dense/b", "predictions.dense.bias", "E -> E"),
        Row("head/norm/gain", "predictions.LayerNorm.weight", "E -> E"),
        Row("head/norm/bias", "predictions.LayerNorm.bias", "E -> E"),
        Row("head/tied/b", "predictions.bias", "V -> V"),
        Row("head/w", "classifier.weight", "C D -> D C"),
        Row("head/b", "classifier.bias", "C -> C"),
    ),
    copies=(
        ("predictions.decoder.weight", f"{EMBEDDINGS}.word_embeddings.weight"),
        ("predictions.decoder.bias", "predictions.bias"),
    ),
    buffers=(r"embeddings\.position_ids$",),
)
