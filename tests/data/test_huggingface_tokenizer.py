"""tokenizer.json of other people, run by the tokenizers library: marks, decoding, and what cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, WordPiece

from txjax.data.codec import load_codec
from txjax.data.tokenizers.huggingface import HuggingFace, HuggingFaceCodec
from txjax.schema import ConfigError

GOLDEN = Path(__file__).parents[1] / "golden" / "tokenizer"


@pytest.fixture
def codec() -> HuggingFaceCodec:
    return HuggingFace(str(GOLDEN)).build([])


def test_marks_are_those_of_the_files(codec: HuggingFaceCodec):
    assert (codec.bos, codec.separator, codec.specials) == (0, 1, {"pad": 2})
    assert codec.prompt("the").tolist() == [0, *codec.encode("the")]
    assert codec.decode([0, *codec.encode("the other"), 1]) == "the other"
    assert codec.byte_lengths()[[0, 1]].tolist() == [0, 0]


def test_a_text_that_names_a_mark_is_a_text(codec: HuggingFaceCodec):
    ids = codec.encode("a</s>b<s>")
    assert not {0, 1, 2} & set(ids.tolist()) and codec.decode(ids) == "a</s>b<s>"


def test_a_text_is_not_cut_where_the_file_would_cut_it(codec: HuggingFaceCodec):
    assert json.loads((GOLDEN / "tokenizer.json").read_text())["truncation"]["max_length"] == 8
    text = "the theatre " * 20
    assert codec.decode(codec.encode(text)) == text


def test_a_run_keeps_the_files(codec: HuggingFaceCodec, tmp_path: Path):
    codec.save(tmp_path)
    again = load_codec(tmp_path)
    assert isinstance(again, HuggingFaceCodec) and again.files == codec.files
    assert again.encode("the other day").tolist() == codec.encode("the other day").tolist()


GENERATION = {"decoder_start_token_id": 1, "forced_bos_token_id": 0, "bad_words_ids": [[2], [3, 4]], "num_beams": 4}


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])  # the latter in old models
def test_a_decoder_begins_as_the_files_of_its_model_say(name: str, tmp_path: Path):
    shutil.copytree(GOLDEN, tmp_path / "theirs")
    (tmp_path / "theirs" / name).write_text(json.dumps(GENERATION))
    HuggingFace(str(tmp_path / "theirs")).build([]).save(tmp_path)
    codec = load_codec(tmp_path)
    assert isinstance(codec, HuggingFaceCodec)
    assert (codec.begins, codec.start, codec.unwritten) == ((1, 0), (1, 0), (2,))
    assert codec.extended(("mask", "pad", "sentinel0")).start == (1, 0)
    assert codec.source_ids("the").tolist() == [0, *codec.encode("the"), 1]
    kept = {key: value for key, value in GENERATION.items() if key != "num_beams"}  # of ids alone
    assert json.loads(codec.files["generation_config.json"]) == kept


def test_where_they_say_nothing_it_begins_with_the_end(codec: HuggingFaceCodec, tmp_path: Path):
    assert (codec.begins, codec.start, codec.unwritten) == ((), (codec.separator,), ())
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    (tmp_path / "generation_config.json").write_text('{"bos_token_id": 0}')  # of a decoder alone
    assert HuggingFace(str(tmp_path)).build([]).files == codec.files
    (tmp_path / "generation_config.json").write_text('{"bos_to')
    with pytest.raises(ConfigError, match=r"generation_config.json is no JSON, or is cut off"):
        HuggingFace(str(tmp_path)).build([])


def test_text_comes_as_soon_as_a_character_is_whole(codec: HuggingFaceCodec):
    stream = codec.stream()
    ids = codec.encode("a你 b").tolist()
    said = [stream.push([token]) for token in ids]
    assert "".join(said) + stream.close() == "a你 b" and "\N{REPLACEMENT CHARACTER}" not in "".join(said)
    stream = codec.stream()
    assert stream.push(ids[:2]) == "a" and stream.close() == "\N{REPLACEMENT CHARACTER}"
    with pytest.raises(ValueError, match="id 999 is not in the vocabulary"):
        stream.push([999])


def sentencepiece() -> Engine:
    """Llama's form: spaces are low blocks, unknown characters bytes."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "ab", "▁ab"]
    merges = [("▁", "a"), ("a", "b"), ("▁a", "b")]
    engine = Engine(BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", byte_fallback=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    engine.decoder = decoders.Sequence(steps)
    engine.add_special_tokens(["<unk>", "<s>", "</s>"])
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return engine


def wordpiece() -> Engine:
    """BERT's form."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##related", "words"]
    engine = Engine(WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    engine.add_special_tokens(pieces[:5])
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return engine


def test_pieces_of_sentencepiece_are_bytes_and_spaces():
    codec = HuggingFaceCodec({"tokenizer.json": sentencepiece().to_str()})
    ids = codec.encode("ab 你")
    assert codec.bos == 1 and b"".join(codec.pieces[i] for i in ids).decode() == " ab 你"
    assert codec.decode(codec.prompt("ab 你")) == "ab 你"


def test_pieces_of_wordpiece_and_its_marks():
    settings = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]"}
    codec = HuggingFaceCodec({"tokenizer.json": wordpiece().to_str(), "tokenizer_config.json": json.dumps(settings)})
    assert (codec.bos, codec.separator) == (2, 3)
    assert codec.specials == {"cls": 2, "sep": 3, "mask": 4, "pad": 0}
    ids = codec.encode("unrelated words")
    assert codec.decode(ids) == "unrelated words" and b"".join(codec.pieces[i] for i in ids) == b" unrelated words"


def test_what_is_no_tokenizer_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"data.tokenizer.huggingface.path is none"):
        HuggingFace().build([])
    with pytest.raises(ConfigError, match=r"has no tokenizer.json: let transformers save a fast tokenizer there"):
        HuggingFace(str(tmp_path)).build([])
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"tokenizer.json is not one that the tokenizers library reads"):
        HuggingFace(str(tmp_path)).build([])
