"""llama2.c's tokenizer file against the tokenizers library, which runs the same merges from a list of ranks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers.models import BPE

from txjax.data.tokenizers.llama2c import Llama2c, Llama2cCodec, read
from txjax.schema import ConfigError


@pytest.fixture(scope="module")
def file(corpora: Path) -> Path:
    return corpora / "stories260K" / "tok512.bin"


@pytest.fixture(scope="module")
def codec(file: Path) -> Llama2cCodec:
    return Llama2c(str(file)).build([])


@pytest.fixture(scope="module")
def story(corpora: Path) -> str:
    text = (corpora / "stories260K" / "stories260K.upstream.md").read_text(encoding="utf-8")
    return text.split("-t 0.0\n")[1].split("\n```")[0]


@pytest.fixture(scope="module")
def engine(file: Path) -> Engine:
    names, scores = read(file)
    texts = [name.decode() for name in names]
    ids = {text: index for index, text in enumerate(texts)}
    by_rank = sorted(ids, key=lambda text: (-scores[ids[text]], ids[text]))
    merges = [(t[:i], t[i:]) for t in by_rank for i in range(1, len(t)) if t[:i] in ids and t[i:] in ids]
    return Engine(BPE(ids, merges, byte_fallback=True))


@given(st.text(st.sampled_from("aehinorstuy .,'\n") | st.characters(exclude_categories=["Cs"]), min_size=1))
def test_encoding_agrees_with_the_library(codec: Llama2cCodec, engine: Engine, text: str):
    assert codec.encode(text).tolist() == engine.encode(" " + text).ids


def test_a_published_story_is_encoded_as_the_library_does(codec: Llama2cCodec, engine: Engine, story: str):
    assert story.startswith("Once upon a time, there was a little girl named Lily.")
    assert codec.encode(story).tolist() == engine.encode(" " + story).ids
    assert codec.decode(codec.prompt(story)) == story


def test_the_first_space_goes_only_after_the_beginning_of_a_text(codec: Llama2cCodec):
    ids = codec.encode("Once upon").tolist()
    assert codec.decode([1, *ids]) == "Once upon"
    assert codec.decode(ids) == " Once upon"
    assert codec.decode([*ids, 1, *ids]) == " Once uponOnce upon"
    assert codec.decode([3 + 0x0A, 3 + 0xE4, 3 + 0xBD, 3 + 0xA0]) == "\n你"


@pytest.mark.parametrize("kept", [0, 3, 10, 3_000, 6_226])
def test_a_file_that_is_cut_off_is_refused(file: Path, tmp_path: Path, kept: int):
    short = tmp_path / "short.bin"
    short.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"short.bin is no llama2.c tokenizer, or is cut off"):
        Llama2c(str(short)).build([])


@pytest.mark.parametrize("content", [b"PK\x03\x04 some other file", struct.pack("<ifi", 7, 0.0, 5) + b"<unk>"])
def test_another_file_is_refused(tmp_path: Path, content: bytes):
    other = tmp_path / "other.bin"
    other.write_bytes(content)
    with pytest.raises(ConfigError, match=r"is no llama2.c tokenizer"):
        Llama2c(str(other)).build([])
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        Llama2c(str(tmp_path / "none.bin")).build([])
