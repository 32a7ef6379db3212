"""What every chunking must do, whichever kinds there are; then each one's own promise."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txjax.config.data import Chunking
from txjax.data.chunking.concatenate import Concatenate
from txjax.data.chunking.first_fit import FirstFit, first_fit
from txjax.data.chunking.sentence import Sentence
from txjax.data.chunking.truncate import Truncate
from txjax.data.chunking.window import Window
from txjax.data.codec import Codec
from txjax.data.documents import Documents
from txjax.data.sequences import Sequences
from txjax.data.tokenizers.bytes import BytesCodec
from txjax.schema import ConfigError

KINDS = sorted(Chunking.members())
SEPARATOR = BytesCodec.separator


class Plain(Codec):
    """A codec without separator whose every token is unlike the others, so that a test can tell where each went."""

    pieces = [b"."] * 10_000


def numbered(lengths: list[int]) -> Documents:
    ids = iter(range(10_000))
    return Documents.join([np.array([next(ids) for _ in range(n)], np.int32) for n in lengths], Plain())


def text(*documents: str) -> Documents:
    codec = BytesCodec()
    return Documents.join([codec.encode(document) for document in documents], codec)


def scored(sequences: Sequences) -> list[tuple[int, int]]:
    """Each prediction that counts, as (token read, token to predict)."""
    rows = [sequences[i] for i in range(len(sequences))]
    return [
        (int(read), int(target))
        for row in rows
        for read, target, weight in zip(row["tokens"], row["targets"], row["weights"], strict=True)
        if weight
    ]


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=8)


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(lengths=lengths, context=st.integers(1, 16))
def test_rows_hold_true_predictions_and_the_report_counts_them(kind: str, split: str, lengths: list[int], context: int):
    documents = numbered(lengths)
    try:
        sequences = Chunking.members()[kind]().chunk(documents, context, split)
    except ConfigError:
        assert max(lengths) < 2 or sum(lengths) <= context
        return
    rows = [sequences[i] for i in range(len(sequences))]
    for row in rows:
        assert {array.shape for array in row.values()} == {(context,)}
        assert {name: array.dtype for name, array in row.items() if name != "weights"} == {
            name: np.int32 for name in sequences.fields if name != "weights"
        }
        assert row["weights"].dtype == np.float32 and set(row["weights"].tolist()) <= {0.0, 1.0}
        if "segments" in row:
            assert np.array_equal(row["weights"] > 0, row["segments"] > 0)
    predictions = scored(sequences)
    assert all(target == read + 1 for read, target in predictions)  # tokens are numbered in the order of the text
    report = sequences.report
    assert (report.sequences, report.documents, report.context) == (len(rows), len(lengths), context)
    assert report.targets == len(predictions) == sum(int(row["weights"].sum()) for row in rows)
    assert report.targets <= report.tokens <= len(rows) * context
    together = sequences.gather(np.arange(len(rows) + 1))
    for name, array in together.items():
        assert np.array_equal(array, np.stack([row[name] for row in rows] + [np.zeros_like(array[0])]))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(lengths=lengths, context=st.integers(1, 16))
def test_validation_scores_each_token_once_and_crosses_a_seam_only_where_documents_are_one_stream(
    kind: str, lengths: list[int], context: int
):
    documents = numbered(lengths)
    try:
        sequences = Chunking.members()[kind]().chunk(documents, context, "validation")
    except ConfigError:
        return
    counts = Counter(target for _, target in scored(sequences))
    first_tokens = set(documents.starts.tolist())  # tokens are numbered by place
    predictable = set(range(1, sum(lengths)))
    if kind in ("truncate", "first_fit", "sentence"):
        predictable -= first_tokens
    assert set(counts.values()) <= {1}
    assert sequences.report.dropped == len(predictable) - len(counts)
    if kind != "truncate":
        assert set(counts) == predictable


@pytest.mark.bug("stanford-crfm/mistral#90", "stanford-crfm/mistral#91", "huggingface/datatrove#345")
def test_one_separator_between_documents_and_none_in_a_single_one():
    s = SEPARATOR
    assert text("ab", "", "c", "d").tokens.tolist() == [s, 97, 98, s, 99, s, 100, s]
    assert text("ab").tokens.tolist() == [97, 98]
    documents = text("ab", "c")
    views = [documents.tokens[a:b].tolist() for a, b in zip(documents.starts, documents.stops, strict=True)]
    assert views == [[s, 97, 98, s], [s, 99, s]]


@pytest.mark.bug("huggingface/transformers#25790")
@pytest.mark.parametrize("kind", KINDS)
def test_a_documents_end_is_learnt(kind: str):
    sequences = Chunking.members()[kind]().chunk(text("ab.", "cd.", "ef."), 4, "train")
    assert (ord("."), SEPARATOR) in scored(sequences)


@pytest.mark.bug("karpathy/char-rnn#15", "karpathy/char-rnn#32", "Joluck/RWKV-PEFT#52", "OpenNMT/OpenNMT-py#7")
@pytest.mark.parametrize("kind", ["concatenate", "window"])
def test_a_text_shorter_than_a_sequence_is_refused_with_both_numbers(kind: str):
    chunking = Chunking.members()[kind]()
    for length in (10, 64):
        message = f"the validation split has {length} tokens, but data.context=64 needs 65"
        with pytest.raises(ConfigError, match=message):
            chunking.chunk(numbered([length]), 64, "validation")
    assert len(chunking.chunk(numbered([65]), 64, "validation")) == 1


@pytest.mark.parametrize("kind", ["truncate", "first_fit", "sentence"])
def test_documents_with_nothing_to_predict_are_refused(kind: str):
    with pytest.raises(ConfigError, match=r"no document of the train split has the 2 tokens .* of 3 tokens in all"):
        Chunking.members()[kind]().chunk(numbered([1, 1, 1]), 64, "train")


def test_concatenate_shares_one_token_between_neighbours():
    sequences = Concatenate().chunk(numbered([6, 5]), 4, "train")
    assert [sequences[i]["tokens"].tolist() for i in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 0]]
    assert [sequences[i]["targets"].tolist() for i in range(3)] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 0, 0]]
    assert sequences[2]["weights"].tolist() == [1, 1, 0, 0]


def test_nothing_is_copied_before_a_row_is_read():
    documents = numbered([50, 50])
    for kind in KINDS:
        assert Chunking.members()[kind]().chunk(documents, 8, "train").tokens is documents.tokens


def test_a_window_counts_its_overlap_once_in_validation_and_always_in_training():
    assert scored(Window(stride=2).chunk(numbered([8]), 4, "validation")) == [(i, i + 1) for i in range(7)]
    train = Window(stride=2).chunk(numbered([8]), 4, "train")
    assert [train[i]["tokens"].tolist() for i in range(3)] == [[0, 1, 2, 3], [2, 3, 4, 5], [3, 4, 5, 6]]
    assert all(train[i]["weights"].all() for i in range(3))


@pytest.mark.claim("C19")
def test_a_window_gives_each_prediction_the_context_it_promises():
    sequences = Window(stride=3).chunk(numbered([100]), 16, "validation")
    for i in range(1, len(sequences)):
        assert sequences[i]["weights"].argmax() >= 16 - 3


def test_a_stride_that_leaves_out_tokens_is_refused():
    with pytest.raises(ConfigError, match=r"stride=9 would leave out tokens: choose at most data.context=8"):
        Window(stride=9).chunk(numbered([50]), 8, "train")
    with pytest.raises(ConfigError, match="stride must be at least 1 or none, got 0"):
        Window(stride=0)


@pytest.mark.bug("facebookresearch/lingua#46", "T094")
@pytest.mark.claim("C20")
def test_truncate_scores_what_it_kept_and_says_what_it_dropped(caplog: pytest.LogCaptureFixture):
    sequences = Truncate().chunk(numbered([12, 3, 1]), 4, "validation")
    assert scored(sequences) == [(0, 1), (1, 2), (2, 3), (3, 4), (12, 13), (13, 14)]
    assert (sequences.report.targets, sequences.report.dropped) == (6, 7)
    assert caplog.messages == ["validation: truncate dropped 7 of 16 tokens, of 1 documents longer than 5"]


@pytest.mark.bug("huggingface/transformers#25452")
def test_first_fit_keeps_documents_apart(caplog: pytest.LogCaptureFixture):
    sequences = FirstFit().chunk(numbered([4, 5, 3, 2]), 6, "train")
    assert len(sequences) == 2 and not caplog.messages
    row = sequences[0]
    assert row["tokens"].tolist() == [0, 1, 2, 9, 10, 12]
    assert row["targets"].tolist() == [1, 2, 3, 10, 11, 13]
    assert row["segments"].tolist() == [1, 1, 1, 2, 2, 3]
    assert row["positions"].tolist() == [0, 1, 2, 0, 1, 0]
    assert sequences[1]["segments"].tolist() == [1, 1, 1, 1, 0, 0]
    assert sequences.report.targets == sum(n - 1 for n in (4, 5, 3, 2))


def test_first_fit_divides_what_is_too_long_and_says_so(caplog: pytest.LogCaptureFixture):
    sequences = FirstFit().chunk(numbered([10, 2]), 4, "train")
    assert caplog.messages == ["train: first_fit divided 1 of 2 documents, longer than 5 tokens"]
    assert sequences.report.targets == 10


@given(st.integers(1, 12).flatmap(lambda c: st.tuples(st.just(c), st.lists(st.integers(1, c), max_size=40))))
def test_first_fit_finds_the_first_bin_with_room(problem: tuple[int, list[int]]):
    capacity, sizes = problem
    room: list[int] = []
    homes = []
    for size in sizes:
        home = next((i for i, left in enumerate(room) if left >= size), len(room))
        if home == len(room):
            room.append(capacity)
        room[home] -= size
        homes.append(home)
    assert first_fit(sizes, capacity) == homes


def decoded(sequences: Sequences) -> list[str]:
    codec = BytesCodec()
    return [codec.decode(sequences.tokens[a + 1 : b]) for a, b, _ in sequences.spans]  # a shares its first token


def test_sentences_end_where_english_and_chinese_ones_do():
    english = 'Pi is 3.14 or so. He said "no!" Then he left?\n\nA title\n\nThe end.'
    assert decoded(Sentence().chunk(text(english), 20, "train")) == [
        "i is 3.14 or so.", ' He said "no!"', " Then he left?\n\n", "A title\n\nThe end.",
    ]  # fmt: skip
    chinese = "你好。今天天气很好！他说：“走吧。”然后走了？"
    assert decoded(Sentence().chunk(text(chinese), 25, "train")) == [
        "\ufffd\ufffd好。", "今天天气很好！", "他说：“走吧。”", "然后走了？",
    ]  # fmt: skip


def test_paragraphs_end_at_empty_lines():
    assert decoded(Sentence("paragraph").chunk(text("One. Two.\n\nThree.\r\n \r\nFour."), 12, "train")) == [
        "ne. Two.\n\n", "Three.\r\n \r\n", "Four.",
    ]  # fmt: skip


def test_a_sentence_longer_than_the_context_is_divided_and_said_so(caplog: pytest.LogCaptureFixture):
    assert decoded(Sentence().chunk(text("abcdefgh. ij."), 4, "train")) == ["bcde", "fgh.", " ij."]
    assert decoded(Sentence().chunk(text("It is 3.14 long."), 8, "train")) == ["t is 3.1", "4 long."]
    assert caplog.messages == [f"train: 1 cuts fell inside a sentence, longer than {n} tokens" for n in (4, 8)]


def test_sentences_never_cross_documents():
    assert decoded(Sentence().chunk(text("A.", "B."), 50, "train")) == ["A.<|endoftext|>", "B.<|endoftext|>"]


def test_ids_outside_the_vocabulary_are_refused():
    documents = numbered([5])
    documents.check_ids(5, "train")
    with pytest.raises(ConfigError, match="ids from 0 to 4, but the vocabulary has 4"):
        documents.check_ids(4, "train")
    negative = Documents.join([np.array([3, -1], np.int32)], Plain())
    with pytest.raises(ConfigError, match="ids from -1 to 3"):
        negative.check_ids(4, "train")
    with pytest.raises(ConfigError, match="the train split has no text"):
        Documents.join([], Plain()).check_ids(4, "train")


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)


@pytest.mark.parametrize("kind", KINDS)
@given(lengths=lengths, count=st.integers(1, 12))
@settings(max_examples=15)
def test_a_thinned_split_holds_whole_rows_of_it_in_order_and_its_report_counts_them(
    kind: str, lengths: list[int], count: int
):
    try:
        whole = Chunking.members()[kind]().chunk(numbered(lengths), 8, "validation")
    except ConfigError:
        return
    thin = whole.thinned(count)
    rows = [{name: array.tolist() for name, array in whole[i].items()} for i in range(len(whole))]
    found = [{name: array.tolist() for name, array in thin[i].items()} for i in range(len(thin))]
    assert len(thin) == min(count, len(whole))
    places = [rows.index(row) for row in found]
    assert places == sorted(places)
    assert thin.report.targets == sum(sum(row["weights"]) for row in found)
    assert thin.report.targets + thin.report.dropped == whole.report.targets + whole.report.dropped
    assert thin.target_bytes(Plain()) == thin.report.targets
