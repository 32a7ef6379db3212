"""Text sources: files, folders, splits, and one sentence for what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.config.data import Data, Source
from txjax.data.sources.text import Text, cut
from txjax.schema import ConfigError


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def both(source: Source, validation: float = 0.25) -> tuple[list[str], list[str]]:
    data = Data(validation=validation)
    return list(source.documents("train", data)), list(source.documents("validation", data))  # type: ignore


@settings(max_examples=50)
@given(st.lists(st.text()), st.floats(0.01, 0.99))
def test_a_cut_divides_the_characters_by_share_and_loses_none(documents: list[str], validation: float):
    train, held_out = (list(cut(documents, split, validation, 0.0)) for split in ("train", "validation"))
    text = "".join(documents)
    assert "".join(train) == text[: int(len(text) * (1 - validation))]
    assert "".join(train + held_out) == text
    assert len(train) + len(held_out) <= len(documents) + 1


@settings(max_examples=50)
@given(st.lists(st.text()), st.floats(0.01, 0.5), st.floats(0.0, 0.49))
def test_three_splits_are_three_stretches_of_the_text(documents: list[str], validation: float, test: float):
    text = "".join(documents)
    splits = ["".join(cut(documents, split, validation, test)) for split in ("train", "validation", "test")]
    assert "".join(splits) == text
    assert abs(len(splits[1]) - validation * len(text)) <= 1 and abs(len(splits[2]) - test * len(text)) <= 1
    if not test:
        assert splits[:2] == ["".join(cut(documents, split, validation, 0.0)) for split in ("train", "validation")]


def test_a_text_has_a_test_where_a_share_is_asked_for(tmp_path: Path):
    (tmp_path / "a.txt").write_text("0123456789")
    source = Text(str(tmp_path / "a.txt"))
    assert source.documents("test", Data()) is None
    thirds = Data(validation=0.3, test=0.2)
    assert [list(source.documents(split, thirds) or ()) for split in ("train", "validation", "test")] == [
        ["01234"], ["567"], ["89"],
    ]  # fmt: skip
    with pytest.raises(ConfigError, match=r"test must be 0, or a share that leaves some text beside validation=0.3"):
        Data(validation=0.3, test=0.7)


def test_a_folder_with_a_split_of_its_own_has_the_test_that_it_brings(tmp_path: Path):
    for split in ("train", "validation"):
        (tmp_path / f"{split}.txt").write_text(split)
    source = Text(str(tmp_path))
    assert source.documents("test", Data()) is None
    with pytest.raises(ConfigError, match=r"data.test=0.1 cuts no text that has a split of its own: add test.txt"):
        source.documents("train", Data(test=0.1))
    (tmp_path / "test.txt").write_text("test")
    assert [list(source.documents(split, Data()) or ()) for split in ("train", "test")] == [["train"], ["test"]]


def test_the_embedded_corpus_gives_up_documents_for_a_test_only_when_asked():
    plain, asked = Data(), Data(test=0.1)
    train, validation, test = (list(Text().documents(split, asked) or ()) for split in ("train", "validation", "test"))
    assert Text().documents("test", plain) is None
    assert validation == list(Text().documents("validation", plain) or ())
    assert sorted(train + test) == sorted(Text().documents("train", plain) or ()) and not set(train) & set(test)
    assert len(test) == pytest.approx(len(validation), abs=1)


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
