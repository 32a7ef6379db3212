"""RoBERTa: BERT with two rows of the position table before the first position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.families.bert import ACTIVATIONS, FIELDS, encoder
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.pooler import PoolerHead

OFFSET = 2  # their id of padding, and one


@dataclass(frozen=True)
class Rows:
    """max_position_embeddings counts the rows of the table, not positions."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"context": config["max_position_embeddings"] - OFFSET}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {"max_position_embeddings": model.context + OFFSET, "pad_token_id": OFFSET - 1}


FAMILY = Family(
    model_type="roberta",
    prefix="roberta.",
    base=presets.roberta(vocab_size=50265),
    fields=(
        *FIELDS,
        Rows(),
        Heads({"RobertaModel": PoolerHead(), "RobertaForMaskedLM": Masked()}, ACTIVATIONS),
    ),
    table=(
        *encoder("roberta"),
        Row("head/dense/w", "lm_head.dense.weight", "E D -> D E"),
        Row("head/dense/b", "lm_head.dense.bias", "E -> E"),
        Row("head/norm/gain", "lm_head.layer_norm.weight", "D -> D"),
        Row("head/norm/bias", "lm_head.layer_norm.bias", "D -> D"),
        Row("head/tied/b", "lm_head.bias", "V -> V"),
    ),
    copies=(
        ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
        ("lm_head.decoder.bias", "lm_head.bias"),
    ),
    buffers=(r"embeddings\.position_ids$",),
)
