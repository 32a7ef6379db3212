"""Byte-pair encoding against a public reference, GPT-2's published ids, and a trainer of ten lines."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txjax.data.bpe_training import train
from txjax.data.tokenizers.bpe import BPE
from txjax.data.tokenizers.byte_level import BYTE_OF, ByteLevelCodec, parts
from txjax.data.tokenizers.gpt2 import GPT2
from txjax.schema import ConfigError


def test_training_gives_the_reference_merges_and_vocabulary(corpora: Path):
    folder = corpora / "bpe_fixture"
    codec = BPE(vocab_size=500).build([(folder / "corpus.en").read_text(encoding="utf-8")])
    lines = (folder / "train-bpe-reference-merges.txt").read_text(encoding="utf-8").splitlines()
    assert codec.merges == [tuple(line.split(" ")) for line in lines] and len(codec.merges) == 243
    reference = json.loads((folder / "train-bpe-reference-vocab.json").read_text(encoding="utf-8"))
    assert codec.vocabulary == reference and codec.vocab_size == 500


def plain_training(words: list[str], num_merges: int) -> list[tuple[str, str]]:
    """The definition: count all pairs anew for every merge."""
    spelt, merges = [list(word) for word in words], []
    for _ in range(num_merges):
        counts = Counter(pair for word in spelt for pair in pairwise(word))
        if not counts:
            break
        best = max(counts, key=lambda pair: (counts[pair], *([BYTE_OF[c] for c in token] for token in pair)))
        merges.append(best)
        for word in spelt:
            at = 0
            while at < len(word) - 1:
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = ["".join(best)]
                at += 1
    return merges


@given(st.lists(st.text("abĠ", min_size=1, max_size=8), max_size=12))
def test_training_equals_its_definition(words: list[str]):
    assert train(words, 12) == plain_training(words, 12)


def test_a_vocabulary_smaller_than_the_bytes_is_refused():
    with pytest.raises(ConfigError, match=r"vocab_size must be at least 257 .* got 100"):
        BPE(vocab_size=100)


@pytest.fixture(scope="module")
def gpt2(corpora: Path) -> ByteLevelCodec:
    return GPT2().build([])


def test_gpt2_gives_the_published_ids(gpt2: ByteLevelCodec):
    assert gpt2.vocab_size == 50_257 and gpt2.separator == 50_256
    assert gpt2.encode("Hello world").tolist() == [15496, 995]
    assert gpt2.encode("Hello, my dog is cute").tolist() == [15496, 11, 616, 3290, 318, 13779]
    assert gpt2.decode([50256]) == "<|endoftext|>"


@given(st.text(st.sampled_from("a 's\n\t\r\u3000\x1c,1你"), max_size=40), st.integers(1, 5))
def test_a_long_text_may_be_encoded_in_parts(text: str, size: int):
    codec = BPE(vocab_size=270).build(["a's a's 你 11, \n\n a"])
    assert "".join(parts(text, size)) == text
    whole = codec._engine.encode(text, add_special_tokens=False).ids
    assert [i for part in parts(text, size) for i in codec._engine.encode(part, add_special_tokens=False).ids] == whole
