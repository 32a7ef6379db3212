"""Marian, as OPUS-MT's translators have it: BART's layers over sines and cosines, without a norm of the embeddings.

Sides with vocabularies of two sizes cannot be held; with one size, their embeddings may be two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.families import bart
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, Same
from txjax.interop.table import Row
from txjax.models import presets
from txjax.ops.positions import Sinusoidal


@dataclass(frozen=True)
class LastPads:
    """The last id is that of padding and begins what a decoder writes, unless the tokenizer says another."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        last = None if model.vocab_size is None else model.vocab_size - 1
        return {"pad_token_id": last, "decoder_start_token_id": last}


OWN = "model.decoder.embed_tokens.weight"  # the decoder's and the head's, where the encoder has another
FAMILY = Family(
    model_type="marian",
    architecture="MarianMTModel",
    base=presets.bart(vocab_size=58101, embedding_norm=False, position=Sinusoidal(pairs="half")),
    fields=(
        Field("vocab_size", "vocab_size", 58101),
        Same("decoder_vocab_size", "vocab_size", "vocab_size"),
        Field("share_encoder_decoder_embeddings", "encoder.embedding", True, {True: "shared", False: "own"}),
        *bart.FIELDS,
        LastPads(),
        Fixed("normalize_embedding", False),
        Fixed("static_position_embeddings", True),
    ),
    table=(
        Row("embedding/w", "model.shared.weight", "V D -> V D"),
        Row("embedding/w", OWN, "V D -> V D", beside="encoder/embedding/w"),
        Row("encoder/embedding/w", "model.encoder.embed_tokens.weight", "V D -> V D"),
        *bart.layers("encoder/", "model.encoder"),
        *bart.layers("", "model.decoder"),
        *bart.CROSS,
        bart.HEAD,
    ),
    copies=(*bart.COPIES, ("lm_head.weight", OWN)),
    zeros=bart.ZEROS,
    buffers=(r"embed_positions\.weight$",),  # of older files; the same numbers in all
)
