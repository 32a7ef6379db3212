"""Special ids and names of classes: after any codec's vocabulary, saved with it, and never made by a text."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from txjax.config.data import Data, Tokenizer
from txjax.config.root import Config
from txjax.data.codec import FILE, Extended, load_codec
from txjax.data.dataset import load
from txjax.data.tokenizers.saved import Saved
from txjax.schema import ConfigError

TEXT = "A text, 你好 <mask> <cls>!"
ROLES = ("cls", "sep", "mask", "end")


@pytest.fixture(params=["bytes", "char", "bpe"])
def codec(request: pytest.FixtureRequest) -> Extended:
    made = Tokenizer.members()[request.param]().build([TEXT]).extended(ROLES, ("no", "yes"))
    assert isinstance(made, Extended)
    return made


@pytest.mark.bug("huggingface/transformers#2804")
def test_ids_come_after_the_vocabulary_and_no_text_makes_one(codec: Extended):
    base = codec.base
    added = [codec.specials[role] for role in ROLES if codec.specials[role] >= base.vocab_size]
    assert added == list(range(base.vocab_size, codec.vocab_size))
    assert np.array_equal(codec.encode(TEXT), base.encode(TEXT)) and np.array_equal(codec.prompt(""), base.prompt(""))
    assert codec.is_text[codec.encode(TEXT)].all()
    assert not codec.is_text[list(codec.specials.values())].any()
    assert codec.is_text.sum() == base.vocab_size - (base.separator is not None)


def test_the_end_is_the_codecs_own_or_becomes_it(codec: Extended):
    assert codec.separator == codec.specials["end"]
    assert (codec.base.separator is None) == (codec.specials["end"] >= codec.base.vocab_size)


def test_decoding_spells_special_ids_and_counts_no_bytes_for_them(codec: Extended):
    cls, mask = codec.specials["cls"], codec.specials["mask"]
    assert codec.decode([cls, *codec.encode(TEXT), mask]) == f"<cls>{TEXT}<mask>"
    noise = np.random.default_rng(0).integers(0, codec.vocab_size, 200)
    stream = codec.stream()
    assert "".join(stream.push([token]) for token in noise) + stream.close() == codec.decode(noise)
    assert codec.byte_lengths().shape == (codec.vocab_size,)
    assert codec.byte_lengths()[codec.encode(TEXT)].sum() == len(TEXT.encode())
    assert not codec.byte_lengths()[list(codec.specials.values())].any()


def test_what_is_saved_comes_back_with_the_same_ids(codec: Extended, tmp_path: Path):
    codec.save(tmp_path)
    again = load_codec(tmp_path)
    assert (again.specials, again.classes, again.vocab_size) == (codec.specials, codec.classes, codec.vocab_size)
    assert again.extended(ROLES, codec.classes) is again and again.extended(("mask",)) is again
    assert again.decode(again.encode(TEXT)) == TEXT
    more = again.extended(("pad",), ("a",))
    assert more.specials == {**codec.specials, "pad": codec.vocab_size} and more.classes == ("a",)
    more.save(tmp_path / "more")
    assert load_codec(tmp_path / "more").specials == more.specials


def test_a_damaged_base_is_refused(codec: Extended, tmp_path: Path):
    codec.save(tmp_path)
    saved = json.loads((tmp_path / FILE).read_text())
    saved["state"]["base"]["kind"] = "byte"
    (tmp_path / FILE).write_text(json.dumps(saved))
    with pytest.raises(ConfigError, match=f"{FILE} holds a tokenizer of kind 'byte', which is not known"):
        load_codec(tmp_path)


def test_a_model_must_have_rows_for_special_ids():
    settings = Data(source="python", objective="masked", context=32)  # type: ignore[arg-type]
    config = Config(data=settings)
    assert config.data.source.codec(settings).vocab_size == 260  # what inspect says
    small = Config(model=config.model.__class__(vocab_size=257, causal=False), data=settings)
    with pytest.raises(ConfigError, match=r"model.vocab_size=257 is smaller than the 260 ids of the data"):
        load(small)


def test_a_runs_tokenizer_serves_another_run(codec: Extended, tmp_path: Path):
    codec.save(tmp_path / "tokenizer")
    for folder in (tmp_path, tmp_path / "tokenizer"):
        again = Saved(str(folder)).build([])
        assert again.specials == codec.specials
    with pytest.raises(ConfigError, match=r"data.tokenizer.saved.folder is empty"):
        Saved().build([])
    with pytest.raises(ConfigError, match="holds no tokenizer"):
        Saved(str(tmp_path / "nothing")).build([])


def test_a_decoder_begins_with_the_end_or_with_the_padding_that_stands_beside_sentinels(codec: Extended):
    assert codec.start == (codec.end,)
    assert codec.extended(("pad",)).start == (codec.end,)
    spans = codec.extended(("pad", "sentinel0"))
    assert spans.start == (spans.specials["pad"],)
    assert codec.source_ids(TEXT).tolist() == [*codec.encode(TEXT), codec.end]
    assert codec.source_ids(TEXT).dtype == np.int32


def test_without_an_end_there_is_no_source():
    codec = Tokenizer.members()["bytes"]().build([TEXT])
    codec.separator = None
    assert codec.start == ()
    with pytest.raises(ConfigError, match="a tokenizer of kind bytes has no id that ends a text, which an encoder"):
        codec.source_ids(TEXT)
