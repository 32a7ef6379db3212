"""The entry: from a config to both splits, with the golden count on tinyshakespeare."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from txjax.config.data import Data
from txjax.config.model import Model
from txjax.config.root import Config
from txjax.data import catalog
from txjax.data.dataset import load
from txjax.data.pipeline import evaluation_batches
from txjax.data.sources.text import Text
from txjax.data.tokenizers.bpe import BPE
from txjax.data.tokenizers.bytes import BytesCodec
from txjax.data.tokenizers.char import Char
from txjax.schema import ConfigError


@pytest.fixture
def stories(tmp_path: Path) -> str:
    path = tmp_path / "stories.jsonl"
    texts = ["Ann met a dog. It ran.", "Bo saw 月亮。他笑了！", "The end 🎈.", "Ann and Bo ran home."]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return str(path)


def config(source: str, context: int, **data: object) -> Config:
    return Config(data=Data(source=Text(source), context=context, **data))  # type: ignore[arg-type]


def test_windows_of_64_cover_all_of_tinyshakespeares_validation(corpora: Path):
    data = load(config("tinyshakespeare", 64, tokenizer=Char()))
    assert data.codec.vocab_size == 65
    assert (len(data.train.tokens), len(data.validation.tokens)) == (1_003_854, 111_540)
    found = list(evaluation_batches(data.validation, batch_size=100, process_index=0, process_count=1))
    assert len(data.validation) == 1_743 and len(found) == 18
    assert sum(float(batch.weights.sum()) for batch in found) == 111_539
    assert data.validation.target_bytes(data.codec) == 111_539
    text = (corpora / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    row = data.validation[1]
    assert data.codec.decode(row["tokens"]) == text[1_003_854 + 64 :][:64]
    assert data.codec.decode(row["targets"]) == text[1_003_854 + 65 :][:64]


def test_target_bytes_are_those_of_the_text(stories: str):
    data = load(config(stories, 8, tokenizer=BPE(vocab_size=270), validation=0.5))
    held_out = list(Text(stories).documents("validation", Data(validation=0.5)) or ())
    assert len(held_out) > 1 and data.codec.separator in data.validation.tokens
    assert data.validation.target_bytes(data.codec) == sum(len(text.encode()) for text in held_out)


@pytest.mark.bug("karpathy/nanoGPT#131", "jax-ml/jax#4455")
def test_a_model_with_fewer_rows_than_ids_is_refused(stories: str):
    small = replace(config(stories, 8), model=Model(vocab_size=256))
    with pytest.raises(ConfigError, match="vocab_size=256 is smaller than the 257 ids"):
        load(small)


def test_a_saved_codec_is_used_instead_of_a_new_one(stories: str):
    saved = BytesCodec()
    data = load(config(stories, 8, tokenizer=Char(), validation=0.3), saved)
    assert data.codec is saved and data.train.tokens.max() == 256


@pytest.mark.parametrize("chunking", ["concatenate", "crop", "window", "first_fit", "truncate"])
def test_the_trivial_loss_is_the_entropy_of_the_training_targets(stories: str, chunking: str):
    data = load(config(stories, 12, chunking=chunking, validation=0.4))
    for split in (data.train, data.validation):
        rows = split.gather(np.arange(len(split)))
        counts = Counter(rows["targets"][rows["weights"] > 0].tolist())
        shares = np.array(list(counts.values())) / counts.total()
        assert split.target_entropy() == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-12)
    assert data.trivial_loss() == data.train.target_entropy() > 2


def test_the_test_split_is_the_texts_end_cut_as_for_evaluation(stories: str):
    data = load(config(stories, 8, chunking="crop", validation=0.25, test=0.25))
    held_out = data.split("test")
    assert held_out is data.test and data.split("validation") is data.validation
    text = "".join(Text(stories).documents("test", Data(validation=0.25, test=0.25)) or ())
    assert text.endswith("ran home.") and held_out.target_bytes(data.codec) == len(text.encode()) - 1
    assert len(held_out) < len(text) / 4  # not a crop from each place
    with pytest.raises(ConfigError, match=r"no test split: hold a share of the text out by data\.test"):
        load(config(stories, 4)).split("test")


@pytest.mark.bug("ai-forever/ru-gpts#15", "rasbt/LLMs-from-scratch#587")
def test_a_split_shorter_than_the_context_is_named(stories: str):
    with pytest.raises(ConfigError, match=r"the validation split has 10 tokens, but data.context=40 needs 41"):
        load(config(stories, 40, validation=0.15))


def test_the_list_and_the_view_of_a_corpus(stories: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("TXJAX_DATA", raising=False)
    monkeypatch.setenv("TXJAX_CACHE", str(tmp_path))
    rows = {row.name: row for row in catalog.rows()}
    assert rows["python"].place == "embedded"
    assert rows["tinyshakespeare"].place == "txjax data fetch tinyshakespeare"
    assert rows["tinyshakespeare"].size == "1.1 MB" and rows["tinyshakespeare"].licence == "public domain"
    shown = "\n".join(catalog.show(config(stories, 16, validation=0.3), 1))
    assert "257 ids" in shown and "sequences of 16" in shown and "example 0:\n  '<|endoftext|>Ann met a dog. '" in shown


def test_python_with_every_default_can_be_loaded():
    data = load(Config())
    assert data.train.report.documents > 100
    assert data.train.report.real_share > 0.999
    assert np.array_equal(data.train[0]["tokens"][1:], data.train[0]["targets"][:-1])
