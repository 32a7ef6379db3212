"""Texts with a tag for each token: Python's own tokens, a user's file, and what is refused."""

from __future__ import annotations

import io
import tokenize
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.config.data import Data
from txjax.config.model import Model
from txjax.config.root import Config
from txjax.data import python_tokens
from txjax.data.annotated import Annotated
from txjax.data.codec import load_codec
from txjax.data.dataset import Dataset, load
from txjax.data.python_tokens import Tagged as Text
from txjax.data.sources.tagged import Tagged, read, token_tags
from txjax.data.tokenizers.bpe import BPE
from txjax.data.tokenizers.bytes import Bytes
from txjax.data.tokenizers.char import Char
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.schema import ConfigError

CONLL = "EU I-ORG\nrejects O\nGerman B-MISC\n\nPeter B-PER\nBläckburn I-PER\n\n"


def config(name: str, tags: int, context: int = 32, **data: Any) -> Config:
    return Config(
        model=Model(causal=False, head=LinearHead(outputs=tags), context=context),
        data=Data(source=Tagged(name), **data),
    )


def spelt(data: Dataset, index: int) -> list[tuple[str, str | None]]:
    """Each token of a row and its tag."""
    row = {name: array[0] for name, array in data.train.gather(np.array([index])).items()}
    return [
        (data.codec.decode([token]), data.codec.classes[target] if weight else None)
        for token, target, weight, real in zip(*row.values(), strict=True)
        if real
    ]


@pytest.fixture
def conll(tmp_path: Path) -> Path:
    path = tmp_path / "ner.conll"
    path.write_text(CONLL * 10, encoding="utf-8")
    return path


@pytest.mark.parametrize("tokenizer", [Bytes(), BPE(vocab_size=400)], ids=["bytes", "bpe"])
def test_pythons_own_tokenizer_is_the_oracle(monkeypatch: pytest.MonkeyPatch, tokenizer: Any):
    code = "def f(x):  # naïve\n    return 'é' + x[10:]\n"
    monkeypatch.setattr(python_tokens, "documents", lambda: iter([Text(code, list(python_tokens._spans(code)))] * 20))
    data = load(config("python_tokens", 6, context=64, tokenizer=tokenizer))
    rows = spelt(data, 0)
    assert "".join(text for text, _ in rows if "\ufffd" not in text).startswith("def f(x):")
    of = {"def": "keyword", "return": "keyword", "f": "name", "x": "name", "10": "number", "(": "operator"}
    found = [(text.strip(), tag) for text, tag in rows]
    if isinstance(tokenizer, BPE):
        assert [tag for text, tag in found if text in of] == [of[text] for text, tag in found if text in of]
    tagged = "".join(text for text, tag in rows if tag is not None)
    whole = [t.string for t in tokenize.generate_tokens(io.StringIO(code).readline)]
    assert {tag for _, tag in rows} >= {"keyword", "name", "number", "operator", "string", "comment"}
    if isinstance(tokenizer, Bytes):
        assert len(tagged) == sum(len(t.encode()) for t in whole if t.strip())  # a byte of é alone reads as U+FFFD


def test_the_librarys_tokens_are_all_tagged_and_nothing_else():
    text = next(document for document in python_tokens.documents() if document.text.count("\n") > 100)
    covered = np.zeros(len(text.text), int)
    for start, stop, tag in text.spans:
        covered[start:stop] += 1
        if tag == "number":
            assert text.text[start].isdigit() or text.text[start] == "."
        if tag in ("keyword", "name"):
            assert text.text[start:stop].isidentifier()
        if tag == "comment":
            assert text.text[start] == "#" and "\n" not in text.text[start:stop]
    assert covered.max() == 1
    left = {text.text[i] for i in np.flatnonzero(covered == 0)}
    assert left <= set(" \n\\\t\f")


def test_the_library_is_split_by_document():
    data = load(config("python_tokens", 6, context=128, test=0.1))
    assert data.test is not None
    assert data.codec.classes == ("comment", "keyword", "name", "number", "operator", "string")
    assert len(data.train) > 5 * len(data.validation) > 0
    assert data.trivial_loss() < np.log(6)


@pytest.mark.parametrize("tokenizer", [Bytes(), Char(), BPE(vocab_size=300)], ids=["bytes", "char", "bpe"])
def test_words_carry_their_tags_to_all_their_tokens(conll: Path, tokenizer: Any):
    data = load(config(str(conll), 5, tokenizer=tokenizer))
    assert data.codec.classes == ("B-MISC", "B-PER", "I-ORG", "I-PER", "O")
    first = spelt(data, 0)
    assert "".join(text for text, _ in first) == "EU rejects German"
    by_tag = {tag: "".join(text for text, t in first if t == tag).strip() for tag in ("I-ORG", "O", "B-MISC")}
    assert by_tag == {"I-ORG": "EU", "O": "rejects", "B-MISC": "German"}
    if not isinstance(tokenizer, BPE):
        assert [text for text, tag in first if tag is None] == [" ", " "]
    rows = data.train.gather(np.array([1, len(data.train)]))
    assert rows["weights"][0].sum() == (rows["segments"][0] > 0).sum() - (tokenizer != BPE(vocab_size=300))
    assert not any(array[1].any() for array in rows.values())


def test_a_token_has_the_tag_of_the_first_of_it_that_has_one():
    codec = load(Config(data=Data(source="python", tokenizer="bytes"))).codec.extended((), ("a", "b"))
    codec.pieces = [b"x ", b" y", b"  ", b"zw"]  # type: ignore[assignment]
    text = Text("x  y  zw", [(0, 1, "a"), (3, 4, "b"), (6, 7, "b"), (7, 8, "a")])
    assert token_tags(text, np.array([0, 1, 2, 3]), codec, "train").tolist() == [0, 1, -1, 1]
    with pytest.raises(ConfigError, match="must spell a text byte for byte"):
        token_tags(text, np.array([0, 1, 2]), codec, "train")


def test_long_texts_go_on_in_further_rows(conll: Path):
    data = load(config(str(conll), 5, context=8))
    assert isinstance(data.train, Annotated)
    joined = "".join(text for index in range(3) for text, _ in spelt(data, index))
    assert joined == "EU rejects German"
    whole = load(config(str(conll), 5, context=32))
    assert (data.train.targets >= 0).sum() == (whole.train.targets >= 0).sum()  # type: ignore[attr-defined]


def test_rows_of_several_widths_keep_the_tags_of_their_tokens(conll: Path):
    plain = config(str(conll), 5)
    narrow, wide = (load(replace(plain, data=Data(source=Tagged(str(conll), buckets=n)))) for n in (2, 1))
    assert isinstance(narrow.train, Annotated) and len(narrow.train.widths) == 2
    assert narrow.train.gather(np.array([0]))["tokens"].shape[1] < narrow.train.context
    one, other = (sorted(spelt(data, index) for index in range(len(data.train))) for data in (narrow, wide))
    assert one == other


def test_a_folder_keeps_its_splits_and_a_run_its_tags(tmp_path: Path):
    (tmp_path / "train.tsv").write_text(CONLL.replace(" ", "\t"))
    (tmp_path / "dev.tsv").write_text("Peter\tB-PER\n")
    data = load(config(str(tmp_path), 5))
    assert (len(data.train), len(data.validation), data.test) == (2, 1, None)
    data.codec.save(tmp_path / "run")
    assert load_codec(tmp_path / "run").classes == data.codec.classes
    again = load(config(str(tmp_path), 5), load_codec(tmp_path / "run"))
    assert again.codec.classes == data.codec.classes
    (tmp_path / "dev.tsv").write_text("Peter\tPER\n")
    with pytest.raises(ConfigError, match="validation split have the class 'PER', which no text of training has"):
        load(config(str(tmp_path), 5))


def test_what_is_no_tagged_text_is_named(tmp_path: Path, conll: Path):
    path = tmp_path / "x.txt"
    path.write_text("EU B-ORG\nrejects\n")
    with pytest.raises(ConfigError, match=r"x.txt, line 2: a word and its tag"):
        read(path)
    path.write_text("\n\n")
    with pytest.raises(ConfigError, match="holds no sentence"):
        read(path)
    with pytest.raises(ConfigError, match="is neither python_tokens nor an existing folder"):
        load(config("python_token", 5))
    settings = config(str(conll), 5)
    for head, message in (
        (LinearHead(outputs=4), "the data has 5 classes"),
        (Classes(outputs=5), "the data has a class for each token, and model.head=classes makes logits of each row"),
    ):
        with pytest.raises(ConfigError, match=message):
            load(replace(settings, model=replace(settings.model, head=head)))
