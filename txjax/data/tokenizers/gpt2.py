"""GPT-2's own tokenizer, from the two files that came with its weights."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config.data import Tokenizer
from txjax.data import corpora
from txjax.data.tokenizers.byte_level import ByteLevelCodec


@dataclass(frozen=True)
class GPT2(Tokenizer, kind="gpt2"):
    """50,257 ids: 256 bytes, 50,000 merges, and 50256 for the end of a text. Files: corpus gpt2_bpe."""

    def build(self, documents: Iterable[str]) -> ByteLevelCodec:
        vocabulary = json.loads(corpora.locate("gpt2_bpe", "encoder.json").read_text(encoding="utf-8"))
        lines = corpora.locate("gpt2_bpe", "vocab.bpe").read_text(encoding="utf-8").split("\n")
        merges = [line.split(" ") for line in lines[1:] if line]  # the first line is a version
        return ByteLevelCodec(vocabulary, merges)

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> ByteLevelCodec:
        return ByteLevelCodec(state["vocabulary"], state["merges"])
