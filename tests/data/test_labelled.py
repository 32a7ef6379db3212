"""Texts with a class each: the named corpora, a user's own files, and what is refused."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.config.data import Data, Source
from txjax.config.model import Model
from txjax.config.root import Config
from txjax.data import catalog
from txjax.data.annotated import Annotated
from txjax.data.codec import load_codec
from txjax.data.dataset import Dataset, load
from txjax.data.labels import NAMED, read
from txjax.data.pipeline import TrainBatches, evaluation_batches
from txjax.data.sources.labelled import Labelled
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.schema import ConfigError


def config(name: str, classes: int, context: int = 32, **data: Any) -> Config:
    model = Model(causal=False, head=Classes(outputs=classes), context=context)
    source = data.pop("source", None) or Labelled(name)
    return Config(model=model, data=Data(source=source, **data))


def texts(data: Dataset, examples: Any) -> list[tuple[str, str]]:
    """What the rows say, and their class."""
    rows = examples.gather(np.arange(len(examples)))
    spelt = [
        data.codec.decode(row[1 : real.sum() - 1]) for row, real in zip(rows["tokens"], rows["segments"], strict=True)
    ]
    return [(text, data.codec.classes[target]) for text, target in zip(spelt, rows["targets"][:, 0], strict=True)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """60 texts, sorted by class."""
    path = tmp_path / "own.csv"
    rows = [f'"text {i}, of {name}",{name}' for name in ("bad", "good", "so-so") for i in range(20)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("name", "classes", "sizes"),
    [
        ("sst2", 2, (6_920, 872, 1_821)),
        ("mr", 2, (9_595, 1_067, None)),
        ("subj", 2, (9_000, 1_000, None)),
        ("trec", 6, (4_906, 546, 500)),
        ("trec_fine", 50, (4_906, 546, 500)),
        ("waimai", 2, (10_788, 1_199, None)),
        ("chnsenticorp", 2, (6_988, 777, None)),  # one of the 7,766 has no text
    ],
)
def test_a_named_corpus_has_its_published_size_and_splits(
    corpora: Path, name: str, classes: int, sizes: tuple[int, int, int | None]
):
    data = load(config(name, classes))
    found = tuple(None if split is None else len(split) for split in (data.train, data.validation, data.test))
    assert found == sizes
    assert len(data.codec.classes) == classes
    assert 0 < data.trivial_loss() < np.log(classes)
    seen = {target for target in np.unique(data.train.gather(np.arange(len(data.train)))["targets"])}
    assert seen == set(range(classes))


def test_sst2_reads_as_its_files_do(corpora: Path):
    data = load(config("sst2", 2, context=300))
    lines = (corpora / "sst2" / "dev.tsv").read_text(encoding="utf-8").splitlines()
    expected = [(text, {"0": "negative", "1": "positive"}[label]) for text, label in (x.rsplit("\t", 1) for x in lines)]
    assert texts(data, data.validation) == expected
    assert data.codec.classes == ("negative", "positive")
    assert catalog.show(config("sst2", 2), 1)[-1].startswith("  positive: '<cls>a stirring , funny")


def test_a_corpus_by_its_bare_name_is_labelled():
    assert all(Source.from_text(name) == Labelled(name) for name in NAMED)
    assert Data(source="sst2").source == Labelled("sst2")  # type: ignore[arg-type]


def test_splits_are_cut_by_chance_the_same_each_time_and_share_nothing(table: Path):
    made = [load(config(str(table), 3, validation=0.2, test=0.1)) for _ in range(2)]
    splits = [[texts(data, split) for split in (data.train, data.validation, data.test)] for data in made]
    assert splits[0] == splits[1]
    assert [len(split) for split in splits[0]] == [42, 12, 6]
    assert sorted(row for split in splits[0] for row in split) == sorted(
        (f"text {i}, of {name}", name) for name in ("bad", "good", "so-so") for i in range(20)
    )
    assert len({label for _, label in splits[0][1]}) > 1  # though the file is sorted
    assert load(config(str(table), 3)).test is None


def test_rows_are_framed_cut_and_padded(table: Path):
    data = load(config(str(table), 3, context=10)).train
    codec = load(config(str(table), 3, context=10)).codec
    rows = data.gather(np.array([0, len(data)]))
    assert {name: array.shape for name, array in rows.items()} == {
        "tokens": (2, 10), "targets": (2, 1), "weights": (2, 1), "segments": (2, 10)
    }  # fmt: skip
    assert rows["tokens"][0, 0] == codec.specials["cls"] and rows["tokens"][0, -1] == codec.specials["sep"]
    assert not any(array[1].any() for array in rows.values())  # past the last
    assert "all of them" not in str(data.report) and f"{len(data)} of them cut short" in str(data.report)
    bare = load(config("", 3, context=64, source=Labelled(str(table), ends="none")))
    assert bare.codec.specials == {} and bare.codec.vocab_size == 257
    longest = bare.train.gather(np.arange(len(bare.train)))
    assert longest["segments"].sum(1).max() == len("text 19, of so-so")
    assert (longest["tokens"][longest["segments"] == 0] == 0).all()


@pytest.mark.bug("google/uncertainty-baselines#303", "NovaSky-AI/SkyRL#1589")
def test_evaluation_counts_every_text_once(table: Path):
    data = load(config(str(table), 3, validation=0.35))
    assert len(data.validation) == 21
    batches = list(evaluation_batches(data.validation, batch_size=8, process_index=0, process_count=1))
    assert [float(batch.weights.sum()) for batch in batches] == [8, 8, 5]
    assert len(load(config(str(table), 3, validation=0.35, held_out=5)).validation) == 5


def test_an_order_and_a_fingerprint_of_its_own(table: Path):
    def stream(**data: Any) -> TrainBatches:
        split = load(config(str(table), 3, **data)).train
        return TrainBatches(split, batch_size=8, seed=0, shuffle=True, process_index=0, process_count=1)

    assert stream().fingerprint == stream().fingerprint != stream(validation=0.2).fingerprint
    assert {next(stream()).tokens.shape} == {(8, 32)}


def sentences(folder: Path) -> str:
    """Of 1 to 30 letters; one of validation is longer than all of training."""
    for split, lengths in {"train": range(1, 31), "validation": (3, 30, 39, 3)}.items():
        rows = [f"{'ab'[n % 2] * n}\t{['even', 'odd'][n % 2]}" for n in lengths]
        (folder / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    return str(folder)


def test_batches_of_one_width_have_as_many_rows_and_every_text_with_its_class(tmp_path: Path):
    source = Labelled(sentences(tmp_path), buckets=3)
    data, whole = (load(config("", 2, context=48, source=s)) for s in (source, replace(source, buckets=1)))
    assert isinstance(data.train, Annotated) and isinstance(data.validation, Annotated)
    assert len(data.train.widths) == 3 and data.train.widths[-1] == 32  # 30 letters and two ends
    assert data.validation.widths == (*data.train.widths, 48)
    batches = TrainBatches(data.train, batch_size=5, seed=0, shuffle=True, process_index=0, process_count=1)
    seen = {}
    for batch in itertools.islice(batches, 30):
        lengths = batch.segments.sum(1)
        narrowest = {min(w for w in data.train.widths if w >= n) for n in lengths.tolist()}
        assert narrowest == {batch.tokens.shape[1]}
        assert len(batch.tokens) == 5  # a step reads as many texts, whatever their length
        seen |= dict(zip(lengths.tolist(), batch.targets[:, 0].tolist(), strict=True))
    assert seen == {n + 2: data.codec.classes.index(["even", "odd"][n % 2]) for n in range(1, 31)}
    for one, other in ((data.train, whole.train), (data.validation, whole.validation)):
        assert sorted(texts(data, one)) == sorted(texts(whole, other))
    assert [len(text) for text, _ in texts(data, data.validation)] == [3, 3, 30, 39]  # narrow rows first


def test_a_run_keeps_the_names_of_its_classes(table: Path, tmp_path: Path):
    settings = config(str(table), 3)
    data = load(settings)
    data.codec.save(tmp_path / "tokenizer")
    saved = load_codec(tmp_path / "tokenizer")
    assert saved.classes == ("bad", "good", "so-so") and saved.specials == data.codec.specials
    table.write_text("text,label\n" + "new,good\nother,so-so\n" * 20)  # no more text of the first class
    again = load(settings, saved)
    assert again.codec.classes == saved.classes
    assert {label for _, label in texts(again, again.train)} == {"good", "so-so"}


@pytest.mark.parametrize("suffix", [".tsv", ".jsonl", ".csv"])
def test_own_files_of_every_kind_in_a_folder(tmp_path: Path, suffix: str):
    for split in ("train", "validation", "test"):
        path = tmp_path / f"{split}{suffix}"
        rows = [(f'{split} "{i}" 你好', i % 2) for i in range(4)]
        if suffix == ".jsonl":
            path.write_text("".join(json.dumps({"said": text, "mood": label}) + "\n" for text, label in rows))
        elif suffix == ".csv":
            lines = (f'{label},"{text.replace(chr(34), chr(34) * 2)}"' for text, label in rows)
            path.write_text("\n".join(["mood,said", *lines]))
        else:
            path.write_text("\n".join(["mood\tsaid", *(f"{label}\t{text}" for text, label in rows)]))
    data = load(config("", 2, source=Labelled(str(tmp_path), text="said", label="mood")))
    assert data.codec.classes == ("0", "1")
    assert texts(data, data.test) == [(f'test "{i}" 你好', str(i % 2)) for i in range(4)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "line 2 has no 'text': set data.source.labelled.text"),
        ("text,lable\n1,2\n", "line 2 has no 'label', did you mean 'lable'"),
        ("text,label\nx\n", "line 2 has no 'label'"),
        ("text,label\n", "holds no example"),
    ],
)
def test_what_a_table_lacks_is_named(tmp_path: Path, content: str, message: str):
    path = tmp_path / "x.csv"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read(path, "text", "label")


def test_lines_that_are_no_examples_are_named(tmp_path: Path):
    path = tmp_path / "x.jsonl"
    for line, message in (
        ("{", "line 1 is not JSON"),
        ("[1]", "must be an object, got list"),
        ('{"text": 1, "label": 2}', "must be text"),
    ):
        path.write_text(line)
        with pytest.raises(ConfigError, match=message):
            read(path, "text", "label")
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="cannot be read as UTF-8"):
        read(path, "text", "label")


@pytest.mark.bug("jax-ml/jax#26328", "T004")
def test_a_head_of_other_classes_is_refused(table: Path):
    settings = config(str(table), 3)
    for head, message in (
        (Classes(outputs=2), r"the data has 3 classes \(bad, good, so-so\): set model.head to classes with outputs=3"),
        (Classes(outputs=4), "with outputs=3, got model.head=classes with outputs=4"),
        (LinearHead(outputs=3), "model.head=linear makes logits of each token: use model.head=classes"),
        (LinearHead(), "with outputs=3, got model.head=linear with outputs=None"),
    ):
        with pytest.raises(ConfigError, match=message):
            load(replace(settings, model=replace(settings.model, head=head)))


def test_a_class_that_training_lacks_is_refused(tmp_path: Path):
    (tmp_path / "train.csv").write_text("text,label\na,one\nb,two\n")
    (tmp_path / "validation.csv").write_text("text,label\na,one\nb,twoo\n")
    with pytest.raises(
        ConfigError, match=r"1 texts of the validation split have the class 'twoo', .* did you mean 'two'"
    ):
        load(config(str(tmp_path), 2))


def test_what_is_no_corpus_and_no_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"'sst3' is neither a corpus .* did you mean 'sst2'"):
        load(config("sst3", 2))
    with pytest.raises(ConfigError, match=r"must have one of train.tsv, train.csv, train.jsonl, got 0"):
        load(config(str(tmp_path), 2))
    with pytest.raises(ConfigError, match=r"objective=masked is not used where source=labelled"):
        Data(source="labelled", objective="masked")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"data.context=2 has no room"):
        (tmp_path / "t.csv").write_text("text,label\n" + "a,one\nb,two\n" * 9)
        load(config(str(tmp_path / "t.csv"), 2, context=2))


def test_rows_of_no_text_are_still_rows(tmp_path: Path):
    path = tmp_path / "x.csv"
    path.write_text("text,label\n" + '"",one\nb,two\n' * 9)
    data = load(config("", 2, source=Labelled(str(path), ends="none")))
    assert isinstance(data.train, Annotated)
    rows = data.train.gather(np.arange(len(data.train)))
    assert (rows["segments"].sum(1) > 0).all() and (rows["weights"] == 1).all()
