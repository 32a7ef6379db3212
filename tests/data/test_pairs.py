"""Pairs of sentences: what a row holds, how rows come together, and where a corpus is cut."""

from __future__ import annotations

import gzip
import itertools
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.config import Config, Data, Encoder, Model, Train
from txjax.data import dataset
from txjax.data.buckets import BucketOrder, Buckets, widths_of
from txjax.data.pipeline import TrainBatches, evaluation_batches
from txjax.data.sources.pairs import PairExamples, Pairs
from txjax.data.tokenizers.listed import Listed
from txjax.data.tokenizers.words import Words, WordsCodec
from txjax.schema import ConfigError

LINES = {
    "train": [("a b", "x"), ("a", "y x y x"), ("b b b", "x x"), ("a b a b a b", "y"), ("b", "x y"), ("a a", "y y")],
    "valid": [("a a", "x y"), ("b c", "y y y")],
    "test.2016": [],
}
OWN = Encoder(num_layers=1, embedding="own")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for split in ("train", "valid"):
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in LINES[split])
            (tmp_path / f"{split}.{language}").write_text(text)
    return tmp_path


def config(name: object, context: int = 8, **pairs: Any) -> Config:
    return Config(
        model=Model(encoder=Encoder(num_layers=1), context=context, num_layers=1),
        data=Data(source=Pairs(str(name), **pairs), tokenizer=Words()),
        train=Train(batch_size=8),
    )


def batches_of(examples: Any, count: int, batch_size: int = 8, seed: int = 0) -> list[Any]:
    stream = TrainBatches(examples, batch_size=batch_size, seed=seed, shuffle=True, process_index=0, process_count=1)
    return list(itertools.islice(stream, count))


def test_the_encoder_reads_a_sentence_and_its_end_and_the_decoder_predicts_the_other(folder: Path):
    data = dataset.load(config(folder))
    codec = data.codec
    rows = [data.train.gather(np.array([i])) for i in range(len(data.train))]
    found = set()
    for row in rows:
        real, heard = row["segments"][0] > 0, row["source_segments"][0] > 0
        source, target = row["source"][0][heard], row["targets"][0][real]
        assert source[-1] == target[-1] == row["tokens"][0][0] == codec.separator
        np.testing.assert_array_equal(row["tokens"][0][real][1:], target[:-1])
        np.testing.assert_array_equal(row["weights"][0], row["segments"][0])
        assert not row["tokens"][0][~real].any()
        found.add((codec.decode(source[:-1]), codec.decode(target[:-1])))
    assert found == set(LINES["train"])


def test_a_tokenizer_of_others_frames_a_source_and_begins_a_target_as_its_model_did():
    """BART's: <s> source </s>, and </s> <s> before the first token that is written, of which <s> is a target too."""

    class Framed(WordsCodec):
        bos, begins = 1, (0, 1)

    codec = Framed(["a", "b", "x"], "@@")
    rows = PairExamples.of(codec, 8, [("a b", "x")], "train", 1).gather(np.array([0]))
    a, b, x = codec.encode("a b x").tolist()
    for name, want in {"source": [1, a, b, 0], "tokens": [0, 1, x], "targets": [1, x, 0]}.items():
        real = rows["source_segments" if name == "source" else "segments"][0] > 0
        assert rows[name][0][real].tolist() == want


def test_a_batch_holds_rows_of_one_width_and_as_many_as_fit(folder: Path):
    data = dataset.load(config(folder, context=8))
    for batch in batches_of(data.train, 20):
        rows, width = batch.tokens.shape
        assert batch.source.shape == batch.tokens.shape
        assert rows == 8 * 8 // width
        longest = max((batch.segments > 0).sum(1).max(), (batch.source_segments > 0).sum(1).max())
        assert width - 4 < longest <= width


def test_what_divides_a_batch_divides_those_of_all_widths():
    """Of any width: a device that gets no whole share of a batch stops the run, at the first batch of that width."""
    buckets = Buckets((np.arange(3),) * 5, (4, 12, 20, 52, 64), filled=True)
    for batch_size in (6, 8, 32):
        sizes = buckets.batch_sizes(batch_size, 64)
        assert sizes == [batch_size * times for times in (16, 5, 3, 1, 1)]


def test_no_pair_is_left_out_of_an_epoch_and_resuming_goes_on_with_the_next_batch():
    buckets, sizes = [np.arange(0, 10), np.arange(10, 17)], [4, 3]

    def permutation(stream: int, epoch: int, length: int) -> np.ndarray:
        return np.random.default_rng([stream, epoch]).permutation(length)

    order = BucketOrder(buckets, sizes, permutation)
    batches = [order[i] for i in range(100)]
    assert {len(batch) for batch in batches} == {3, 4}
    assert all(len({row < 10 for row in batch}) == 1 for batch in batches)
    for rows, bucket in ((10, 0), (7, 1)):  # each bucket's rows come by epochs, each row once in each
        stream = np.concatenate([b for b in batches if (b[0] < 10) == (bucket == 0)])
        whole = stream[: len(stream) // rows * rows].reshape(-1, rows)
        assert all(sorted(epoch) == sorted(buckets[bucket]) for epoch in whole.tolist())
        assert any(whole[0].tolist() != epoch for epoch in whole[1:].tolist())
    again = BucketOrder(buckets, sizes, permutation)
    assert all((again[i] == batches[i]).all() for i in (57, 3, 99, 0))  # found without the ones before


def test_evaluation_scores_every_token_once_whatever_the_batches(folder: Path):
    data = dataset.load(config(folder))
    want = Counter(token for _, target in LINES["valid"] for token in (*data.codec.encode(target).tolist(), 0))
    for size in (1, 2, 3):
        scored: Counter[int] = Counter()
        for batch in evaluation_batches(data.validation, batch_size=size, process_index=0, process_count=1):
            scored.update(batch.targets[batch.weights > 0].tolist())
        assert scored == want


def test_processes_share_a_batch_between_them(folder: Path):
    data = dataset.load(config(folder))
    whole = batches_of(data.train, 6)
    shares = [
        list(
            itertools.islice(
                TrainBatches(data.train, batch_size=8, seed=0, shuffle=True, process_index=i, process_count=2), 6
            )
        )
        for i in range(2)
    ]
    for batch, *parts in zip(whole, *shares, strict=True):
        np.testing.assert_array_equal(np.concatenate([part.source for part in parts]), batch.source)


def test_widths_waste_the_least_that_so_many_can():
    lengths = np.random.default_rng(0).integers(1, 33, 200)
    for count in (1, 2, 3):
        padded = {
            combination: sum(min(w for w in combination if w >= n) for n in lengths)
            for size in range(1, count + 1)
            for combination in itertools.combinations(range(4, 33, 4), size)
            if max(combination) >= lengths.max()
        }
        chosen = tuple(widths_of(lengths, count).tolist())
        assert padded[chosen] == min(padded.values())


def test_long_pairs_are_left_out_of_training_and_cut_outside_of_it(folder: Path):
    data = dataset.load(config(folder, context=4))
    assert (data.train.report.left_out, data.train.report.cut) == (2, 0)  # type: ignore[attr-defined]
    short = dataset.load(config(folder, context=3))
    assert (short.validation.report.left_out, short.validation.report.cut) == (0, 1)  # type: ignore[attr-defined]
    row = short.validation.gather(np.arange(2))
    assert row["targets"].shape[1] <= 3
    assert (row["targets"][np.arange(2), row["segments"].sum(1) - 1] == short.codec.separator).all()


def test_a_table_is_cut_so_that_one_source_sentence_is_in_one_split(tmp_path: Path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"line {i // 2}\tzeile {i}\tmore\n" for i in range(400)))
    source = Pairs(str(path), source="0", target="1")
    data = Data(source=source, tokenizer=Words(), validation=0.2, test=0.1)
    splits = [source.texts(split, data) for split in ("train", "validation", "test")]
    assert sum(map(len, splits)) == 400
    assert [len(split) / 400 for split in splits] == pytest.approx([0.7, 0.2, 0.1], abs=0.06)
    for one, other in itertools.combinations(splits, 2):
        assert not {pair[0] for pair in one} & {pair[0] for pair in other}
    wrong = replace(source, target="7")
    with pytest.raises(ConfigError, match=r"line 1 has 3 columns: data.source.pairs.source and target are the numbers"):
        wrong.texts("train", data)


def test_compressed_files_read_as_plain_ones(folder: Path, tmp_path: Path):
    plain = dataset.load(config(folder))
    for file in list(folder.iterdir()):
        with gzip.open(f"{file}.gz", "wt", encoding="utf-8") as packed:
            packed.write(file.read_text())
        file.unlink()
    for one, other in zip(dataset.load(config(folder)).train.contents(), plain.train.contents(), strict=True):
        assert bytes(one) == bytes(other)


SPELT = Listed(("x", "<s>", "y", "</s>"), begin="<s>", end="</s>")


def test_each_side_may_have_a_vocabulary_of_its_own(folder: Path):
    own = config(folder, source_tokenizer=Words(continuation=""))
    own = replace(own, data=replace(own.data, tokenizer=SPELT), model=replace(own.model, encoder=OWN))
    data = dataset.load(own)
    codec, reader = data.codec, data.codec.reader
    assert reader.words == ["b", "a"] and codec.sizes == (4, 4)  # type: ignore[attr-defined]
    found = set()
    for i in range(len(data.train)):
        row = data.train.gather(np.array([i]))
        source = row["source"][0][row["source_segments"][0] > 0]
        real = row["segments"][0] > 0
        tokens, targets = row["tokens"][0][real], row["targets"][0][real]
        assert (source[-1], tokens[0], targets[-1]) == (reader.separator, codec.bos, codec.separator) == (0, 1, 3)
        np.testing.assert_array_equal(tokens[1:], targets[:-1])
        found.add((reader.decode(source[:-1]), codec.decode(targets[:-1])))
        assert data.train.show(i, codec)[0].startswith(repr(reader.decode(source[:-1]))[:-1])
    assert found == set(LINES["train"])
    assert np.array_equal(
        dataset.load(own, codec).train.gather(np.arange(2))["source"], data.train.gather(np.arange(2))["source"]
    )


def test_a_decoder_starts_as_translate_will_start_it(folder: Path):
    codec = Words().build(["a b x y"]).extended(("pad", "sentinel0"))  # the marks of T5
    row = dataset.load(config(folder), codec).train.gather(np.array([0]))
    assert row["tokens"][0, 0] == codec.start[0] == codec.specials["pad"] != codec.separator


def test_a_model_with_one_table_cannot_read_two_vocabularies(folder: Path):
    with pytest.raises(ConfigError, match=r"embedding=shared cannot be where the data has a vocabulary for each side"):
        dataset.load(config(folder, source_tokenizer=Words()))
    with pytest.raises(ConfigError, match=r"data.source.pairs.source_tokenizer=listed has no end of a text"):
        dataset.load(config(folder, source_tokenizer=Listed(("a", "b"))))


def test_sizes_of_both_tables_follow_the_data(folder: Path):
    two = replace(config(folder), model=Model(encoder=OWN))
    sized = two.with_vocab(7, 5).model
    assert (sized.vocab, sized.encoder_model.vocab) == (7, 5)
    alone = two.with_vocab(7).model
    assert (alone.vocab, alone.encoder_model.vocab) == (7, 7)
    given = replace(two, model=Model(encoder=replace(OWN, vocab_size=6), vocab_size=9))
    assert given.with_vocab(9, 6) == given
    with pytest.raises(ConfigError, match=r"model.encoder.vocab_size=6 is smaller than the 7 ids of the data"):
        given.with_vocab(9, 7)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"name": "nowhere"}, "is neither a corpus of pairs .*multi30k/bpe10k.* nor an existing folder"),
        ({"name": "tinyshakespeare"}, "holds 40,000 lines of Shakespeare's plays, one document, not pairs"),
        ({"target": "fr"}, r"holds no train.en beside train.fr"),
    ],
)
def test_mistakes_are_one_sentence(folder: Path, change: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        dataset.load(config(**{"name": folder} | change))  # type: ignore[arg-type]


def test_files_of_unequal_length_and_a_model_without_encoder_are_refused(folder: Path):
    with pytest.raises(ConfigError, match="needs a model with an encoder"):
        dataset.load(replace(config(folder), model=Model()))
    (folder / "train.de").write_text("x\n")
    with pytest.raises(ConfigError, match=r"has 6 lines and .* has 1: a line is a pair"):
        dataset.load(config(folder))


def test_words_that_go_on_are_joined_and_unknown_ones_have_an_id():
    codec = Words(least=2).build(["the pul@@ ley", "the pul@@ ley the", "rare"])
    assert codec.words == ["the", "ley", "pul@@"]
    assert codec.decode(codec.encode("the pul@@ ley the")) == "the pulley the"
    assert codec.decode(codec.encode("the rare ley")) == "the <unk> ley"
    assert codec.encode("<|endoftext|> <unk>").tolist() == [1, 1]  # text never makes the end of text
    again = Words.restore(codec.state())
    assert isinstance(again, WordsCodec)
    assert (again.pieces, again.separator) == (codec.pieces, 0)
    assert codec.byte_lengths()[codec.encode("the pul@@ ley")].sum() == len("the pulley ")


def test_the_captions_are_those_of_the_published_corpus():
    if not os.environ.get("TXJAX_DATA"):
        pytest.skip("TXJAX_DATA is not set: the corpus is not here")
    data = dataset.load(config("multi30k/bpe10k", context=64))
    sizes = [len(data.split(split)) for split in ("train", "validation", "test")]  # type: ignore[arg-type]
    assert sizes == [29_000, 1_014, 1_000]
    assert data.codec.vocab_size == 9_708 + 2
    assert data.train.report.real_share > 0.84  # type: ignore[attr-defined]
