"""Text sources: files, folders, splits, and one sentence for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.config.data import Source
from txjax.data.sources.text import Text, cut
from txjax.schema import ConfigError


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def both(source: Source, validation: float = 0.25) -> tuple[list[str], list[str]]:
    return list(source.documents("train", validation)), list(source.documents("validation", validation))


@settings(max_examples=50)
@given(st.lists(st.text()), st.floats(0.01, 0.99))
def test_a_cut_divides_the_characters_by_share_and_loses_none(documents: list[str], validation: float):
    train, held_out = list(cut(documents, "train", validation)), list(cut(documents, "validation", validation))
    text = "".join(documents)
    assert "".join(train) == text[: int(len(text) * (1 - validation))]
    assert "".join(train + held_out) == text
    assert len(train) + len(held_out) <= len(documents) + 1


def test_text_is_kept_as_it_is(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo é 你好\n".encode())
    train, held_out = both(Text(str(tmp_path / "a.txt")))
    assert "".join(train + held_out) == "one\r\ntwo é 你好\n"


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "z.txt").write_text("last document")
    (tmp_path / "a.jsonl").write_text(lines({"text": "first"}) + "\n" + lines({"text": "second"}))
    (tmp_path / "notes.md").write_text("not read")
    train, held_out = both(Text(str(tmp_path)), 0.5)
    assert train == ["first", "second", "l"] and held_out == ["ast document"]


def test_a_folder_may_bring_its_own_split(tmp_path: Path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("abc")
    (tmp_path / "validation.jsonl").write_text(lines({"story": "d"}, {"story": "e"}))
    assert both(Text(str(tmp_path), field="story")) == (["abc"], ["d", "e"])
    (tmp_path / "train.txt").write_text("abc")
    with pytest.raises(ConfigError, match=r"train and train.txt: leave one as the train split"):
        both(Text(str(tmp_path)))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\nnot \xff\xfe", r"a.txt, line 2: byte 0xff is not UTF-8"),
        ("a.txt", b" \n", "a.txt is empty"),
        ("a.jsonl", b"", "a.jsonl is empty"),
        ("a.jsonl", b'{"text": "a"}\n\n{"txet": "b"}\n', "a.jsonl, line 3 has no field 'text', did you mean 'txet'"),
        ("a.jsonl", b'{"text": "a"}\n{"text"', "a.jsonl, line 2 is not JSON"),
        ("a.jsonl", b'{"text": 3}', "a.jsonl, line 1: 'text' must be text, got int"),
        ("a.jsonl", b"[]", "a.jsonl, line 1 must be an object with a field 'text', got list"),
        ("a.jsonl", b'{"text": "\\ud83d"}', "a.jsonl, line 1: 'text' holds half of a surrogate pair"),
        ("a.csv", b"a,b", r"a.csv must be a .txt or .jsonl file"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, name: str, content: bytes, message: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        both(Text(str(tmp_path / name)))


def test_an_empty_folder_and_an_unknown_name_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"holds no .txt or .jsonl file"):
        both(Text(str(tmp_path)))
    with pytest.raises(ConfigError, match=r"neither a corpus .* did you mean 'tinyshakespeare'"):
        both(Text("tinyshakespear"))
    with pytest.raises(ConfigError, match=r"'stories260K' holds weights and tokenizer .* not text"):
        both(Text("stories260K"))


def test_the_embedded_corpus_is_always_there_the_same_and_whole():
    train, held_out = both(Source.from_text("python") or Text())
    assert (train, held_out) == both(Text())
    assert not set(train) & set(held_out)
    size = sum(map(len, train + held_out))
    assert 1_000_000 < size < 6_000_000
    assert 0.05 < sum(map(len, held_out)) / size < 0.25
    assert any('The "if" statement' in text for text in train + held_out)  # the language reference
    assert any("class Thread:" in text for text in train + held_out)


def test_tinyshakespeare_is_cut_where_nanogpt_cuts_it(corpora: Path):
    train, held_out = both(Text("tinyshakespeare"), 0.1)
    assert (len(train[0]), len(held_out[0])) == (1_003_854, 111_540)
