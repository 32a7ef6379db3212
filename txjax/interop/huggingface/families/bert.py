"""BERT, with the heads that it is trained and used with."""

from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.pooler import PoolerHead

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}

# all but position and padding, which roberta counts otherwise
FIELDS = (
    Field("vocab_size", "vocab_size", 30522),
    Field("hidden_size", "width", 768),
    Field("num_hidden_layers", "num_layers", 12),
    Field("num_attention_heads", "attention.num_heads", 12),
    Field("intermediate_size", "feedforward.dense.hidden", 3072),
    Field("hidden_act", "feedforward.dense.activation", "gelu", ACTIVATIONS),
    Field("type_vocab_size", "embedding.tokens.types", 2),
    Field("layer_norm_eps", "norm.layer.eps", 1e-12),
    Fixed("position_embedding_type", "absolute"),
    Fixed("is_decoder", False),
    Fixed("add_cross_attention", False),
    Fixed("tie_word_embeddings", True),
)


def encoder(name: str) -> tuple[Row, ...]:
    """The rows of embeddings and layers, with their name of the bare model."""
    layer = f"{name}.encoder.layer.{{layer}}"
    return (
        Row("embedding/w", f"{name}.embeddings.word_embeddings.weight", "V D -> V D"),
        Row("position/table", f"{name}.embeddings.position_embeddings.weight", "C D -> C D"),
        Row("embedding/types", f"{name}.embeddings.token_type_embeddings.weight", "R D -> R D"),
        Row("embedding_norm/gain", f"{name}.embeddings.LayerNorm.weight", "D -> D"),
        Row("embedding_norm/bias", f"{name}.embeddings.LayerNorm.bias", "D -> D"),
        Row("layers/attention/query/w", f"{layer}.attention.self.query.weight", "(N H) D -> D N H"),
        Row("layers/attention/query/b", f"{layer}.attention.self.query.bias", "(N H) -> N H"),
        Row("layers/attention/key/w", f"{layer}.attention.self.key.weight", "(K H) D -> D K H"),
        Row("layers/attention/key/b", f"{layer}.attention.self.key.bias", "(K H) -> K H"),
        Row("layers/attention/value/w", f"{layer}.attention.self.value.weight", "(K H) D -> D K H"),
        Row("layers/attention/value/b", f"{layer}.attention.self.value.bias", "(K H) -> K H"),
        Row("layers/attention/out/w", f"{layer}.attention.output.dense.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{layer}.attention.output.dense.bias", "D -> D"),
        Row("layers/mixer_norm/gain", f"{layer}.attention.output.LayerNorm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{layer}.attention.output.LayerNorm.bias", "D -> D"),
        Row("layers/dense/in/w", f"{layer}.intermediate.dense.weight", "F D -> D F"),
        Row("layers/dense/in/b", f"{layer}.intermediate.dense.bias", "F -> F"),
        Row("layers/dense/out/w", f"{layer}.output.dense.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{layer}.output.dense.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{layer}.output.LayerNorm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{layer}.output.LayerNorm.bias", "D -> D"),
        Row("pooler/dense/w", f"{name}.pooler.dense.weight", "E D -> D E"),
        Row("pooler/dense/b", f"{name}.pooler.dense.bias", "E -> E"),
    )


FAMILY = Family(
    model_type="bert",
    prefix="bert.",
    base=presets.bert(vocab_size=30522),
    fields=(
        *FIELDS,
        Field("max_position_embeddings", "context", 512),
        Heads(
            {
                "BertModel": PoolerHead(),
                "BertForPreTraining": Masked(next_sentence=True),
                "BertForMaskedLM": Masked(),
                "BertForSequenceClassification": Classes(pooler="tanh"),
                "BertForTokenClassification": LinearHead(outputs=2, bias=True),
            },
            ACTIVATIONS,
        ),
    ),
    table=(
        *encoder("bert"),
        Row("next_sentence/pooler/dense/w", "bert.pooler.dense.weight", "E D -> D E"),
        Row("next_sentence/pooler/dense/b", "bert.pooler.dense.bias", "E -> E"),
        Row("next_sentence/classifier/w", "cls.seq_relationship.weight", "C D -> D C"),
        Row("next_sentence/classifier/b", "cls.seq_relationship.bias", "C -> C"),
        Row("head/dense/w", "cls.predictions.transform.dense.weight", "E D -> D E"),
        Row("head/dense/b", "cls.predictions.transform.dense.bias", "E -> E"),
        Row("head/norm/gain", "cls.predictions.transform.LayerNorm.weight", "D -> D"),
        Row("head/norm/bias", "cls.predictions.transform.LayerNorm.bias", "D -> D"),
        Row("head/tied/b", "cls.predictions.bias", "V -> V"),
        Row("head/w", "classifier.weight", "C D -> D C"),
        Row("head/b", "classifier.bias", "C -> C"),
    ),
    copies=(
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
    buffers=(r"embeddings\.position_ids$",),
    older=((r"\bLayerNorm\.gamma$", "LayerNorm.weight"), (r"\bLayerNorm\.beta$", "LayerNorm.bias")),
)
