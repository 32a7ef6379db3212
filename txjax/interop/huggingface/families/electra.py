"""ELECTRA: BERT whose embedding may be narrower than its layers, as a generator, a discriminator, or alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.families.bert import ACTIVATIONS, encoder
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.replaced import Replaced


@dataclass(frozen=True)
class EmbeddingSize:
    """The width of the embedding; where it is that of the layers there is no projection."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        own, width = config.get("embedding_size", 128), config.get("hidden_size", 256)
        return {"embedding.tokens.width": None if own == width else own}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {"embedding_size": model.embedding_width}


FAMILY = Family(
    model_type="electra",
    prefix="electra.",
    base=presets.electra(vocab_size=30522),
    fields=(
        Field("vocab_size", "vocab_size", 30522),
        Field("hidden_size", "width", 256),
        Field("num_hidden_layers", "num_layers", 12),
        Field("num_attention_heads", "attention.num_heads", 4),
        Field("intermediate_size", "feedforward.dense.hidden", 1024),
        Field("hidden_act", "feedforward.dense.activation", "gelu", ACTIVATIONS),
        Field("max_position_embeddings", "context", 512),
        Field("type_vocab_size", "embedding.tokens.types", 2),
        Field("layer_norm_eps", "norm.layer.eps", 1e-12),
        EmbeddingSize(),
        Fixed("position_embedding_type", "absolute"),
        Fixed("is_decoder", False),
        Fixed("add_cross_attention", False),
        Fixed("tie_word_embeddings", True),
        Heads(
            {
                "ElectraModel": NoHead(),
                "ElectraForMaskedLM": Masked(),
                "ElectraForPreTraining": Replaced(),
                "ElectraForTokenClassification": LinearHead(outputs=2, bias=True),
            },
            ACTIVATIONS,
            own_activation=("ElectraForMaskedLM",),
        ),
    ),
    table=(
        *encoder("electra"),
        Row("embedding_projection/w", "electra.embeddings_project.weight", "D E -> E D"),
        Row("embedding_projection/b", "electra.embeddings_project.bias", "D -> D"),
        Row("head/norm/gain", "generator_predictions.LayerNorm.weight", "E -> E"),
        Row("head/norm/bias", "generator_predictions.LayerNorm.bias", "E -> E"),
        Row("head/dense/w", "discriminator_predictions.dense.weight", "E D -> D E"),
        Row("head/dense/b", "discriminator_predictions.dense.bias", "E -> E"),
        Row("head/dense/w", "generator_predictions.dense.weight", "E D -> D E", beside="head/tied/b"),
        Row("head/dense/b", "generator_predictions.dense.bias", "E -> E", beside="head/tied/b"),
        Row("head/tied/b", "generator_lm_head.bias", "V -> V"),
        Row("head/score/w", "discriminator_predictions.dense_prediction.weight", "C D -> D C"),
        Row("head/score/b", "discriminator_predictions.dense_prediction.bias", "C -> C"),
        Row("head/w", "classifier.weight", "C D -> D C"),
        Row("head/b", "classifier.bias", "C -> C"),
    ),
    copies=(("generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"),),
    buffers=(r"embeddings\.position_ids$",),
)
