"""What every tokenizer must do, whichever kinds there are."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.config.data import Tokenizer
from txjax.data import codec as codec_module
from txjax.data.codec import Codec, load_codec
from txjax.schema import ConfigError

TEXT = "Once upon a time, 你好，世界！ 👩‍👩‍👧 naïve\n\n  <|endoftext|> <s> <0x41>\t3.14 the the then"
# saved is one of the others; words are cut at white space, which is not kept (see test_pairs)
KINDS = sorted(Tokenizer.members().keys() - {"saved", "words"})
GOLDEN = Path(__file__).parents[1] / "golden"
LETTERS = ("<pad>", *sorted(set(TEXT)), "</s>", "<unk>")
COARSE = {
    "bpe": {"vocab_size": 300},
    "huggingface": {"path": str(GOLDEN / "tokenizer")},
    "listed": {"symbols": LETTERS, "between": "nothing", "end": "</s>", "pad": "<pad>", "unknown": "<unk>"},
}


@functools.cache
def build(kind: str) -> Codec:
    """A codec of the kind, trained on TEXT; skips where it needs a file that is not here."""
    try:
        return Tokenizer.members()[kind](**COARSE.get(kind, {})).build([TEXT, TEXT])
    except ConfigError as error:
        if "is not on this machine" in str(error):
            pytest.skip(f"set TXJAX_DATA to a folder with the corpora: {error}")
        raise


def characters(kind: str) -> st.SearchStrategy[str]:
    known = kind in ("char", "listed")
    return st.text(st.sampled_from(sorted(set(TEXT))) if known else st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_text_survives_a_round_trip(kind: str, data: st.DataObject):
    codec, text = build(kind), data.draw(characters(kind) | st.just(TEXT))
    ids = codec.prompt(text)
    assert ids.dtype == np.int32 and ids.min() >= 0 and ids.max() < codec.vocab_size
    if text:
        assert codec.decode(ids) == text


@pytest.mark.bug("huggingface/transformers.js#853", "Blaizzy/mlx-vlm#1771", "exo-explore/exo#1691")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_a_stream_splits_no_character_and_ends_as_decode_does(kind: str, data: st.DataObject):
    codec = build(kind)
    noise = data.draw(st.lists(st.integers(0, codec.vocab_size - 1), max_size=30))
    for ids in (codec.prompt(TEXT).tolist(), noise):
        stream = codec.stream()
        shown = [stream.push([token]) for token in ids] + [stream.close()]
        assert "".join(shown) == codec.decode(ids)
        if ids is not noise:
            assert "\ufffd" not in "".join(shown)
            assert [c for part in shown for c in part] == list(TEXT)
    plain = b"".join(codec.pieces[token] for token in noise)
    if codec.bos is None:
        assert codec.decode(noise) == plain.decode("utf-8", "replace")


@pytest.mark.bug("huggingface/transformers#2804")
@pytest.mark.parametrize("kind", KINDS)
def test_no_text_makes_a_mark(kind: str):
    codec = build(kind)
    marks = {codec.separator, codec.bos} - {None}
    again = codec.decode([*codec.encode(TEXT), *marks, *codec.encode(TEXT)])
    assert marks and not marks & set(codec.encode(TEXT).tolist())
    if kind != "char":
        assert not marks & set(codec.encode(again).tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_prompt_is_a_documents_beginning(kind: str):
    codec = build(kind)
    assert codec.prompt("").tolist() == [codec.separator if codec.bos is None else codec.bos]
    assert len(codec.encode("")) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_codec_is_the_same(kind: str, tmp_path: Path):
    codec = build(kind)
    codec.save(tmp_path / "tokenizer")
    again = load_codec(tmp_path / "tokenizer")
    assert [p.name for p in (tmp_path / "tokenizer").iterdir()] == [codec_module.FILE]
    assert np.array_equal(again.encode(TEXT), codec.encode(TEXT))
    assert list(again.pieces) == list(codec.pieces)
    assert (again.separator, again.bos) == (codec.separator, codec.bos)


@pytest.mark.parametrize("kind", KINDS)
def test_byte_lengths_add_up_to_the_text(kind: str):
    codec = build(kind)
    ids = codec.encode(TEXT)
    prefix = 1 if kind == "llama2c" else 0  # its space before a text
    assert codec.byte_lengths()[ids].sum() == len(TEXT.encode()) + prefix
    assert codec.byte_lengths()[codec.separator] == 0


def test_a_codec_with_another_for_the_source_is_saved_whole(tmp_path: Path):
    letters, bare = build("listed"), build("bytes")
    codec = bare.with_source(letters)
    codec.extended(("mask",)).save(tmp_path)
    again = load_codec(tmp_path)
    assert again.sizes == codec.extended(("mask",)).sizes == (258, len(LETTERS))
    assert again.reader.encode(TEXT).tolist() == letters.encode(TEXT).tolist()
    assert again.encode(TEXT).tolist() == bare.encode(TEXT).tolist()
    assert (bare.source, bare.reader, bare.sizes) == (None, bare, (257,))  # itself it stays as it was


@pytest.mark.parametrize("token", [-1, 257])
def test_an_id_outside_the_vocabulary_is_refused(token: int):
    with pytest.raises(ValueError, match=f"id {token} is not in the vocabulary of 257"):
        build("bytes").decode([token])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "holds no tokenizer"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"kind": "bytes"}', "damaged"),
        ('{"kind": "byte", "state": {}}', "kind 'byte', which is not known, did you mean 'bytes'"),
    ],
)
def test_a_damaged_save_is_refused(tmp_path: Path, content: str | None, message: str):
    if content is not None:
        (tmp_path / codec_module.FILE).write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_codec(tmp_path)


def test_characters_are_sorted_and_an_unknown_one_is_named():
    codec = Tokenizer.members()["char"]().build(["hello"])
    assert codec.characters == "ehlo" and codec.vocab_size == 4 and codec.separator is None
    assert codec.encode("hole").tolist() == [1, 3, 2, 0]
    with pytest.raises(ConfigError, match=r"character 'é' \(LATIN SMALL LETTER E WITH ACUTE, after 1 others\)"):
        codec.encode("hé")
    assert codec.prompt("").tolist() == [0]
    assert Tokenizer.members()["char"]().build(["hello\n"]).prompt("").tolist() == [0]
    assert Tokenizer.members()["char"]().build(["\thello\n"]).prompt("").tolist() == [1]


def test_tinyshakespeare_has_65_characters(corpora: Path):
    text = (corpora / "tinyshakespeare" / "input.txt").read_text()
    assert Tokenizer.members()["char"]().build([text]).vocab_size == 65
