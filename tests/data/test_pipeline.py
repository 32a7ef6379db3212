"""Batches: the same for any number of processes, resumed in place, every sequence once an epoch."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from txjax.batch import Batch
from txjax.data.chunking.concatenate import Concatenate
from txjax.data.chunking.first_fit import FirstFit
from txjax.data.documents import Documents
from txjax.data.pipeline import TrainBatches, evaluation_batches
from txjax.data.sequences import Sequences
from txjax.data.tokenizers.bytes import BytesCodec
from txjax.schema import ConfigError

CONTEXT = 4
NAMES = ("tokens", "targets", "weights", "positions", "segments")


def sequences(count: int) -> Sequences:
    """`count` sequences that each begin with a token of their own."""
    codec = BytesCodec()
    ids = np.arange(count * CONTEXT + 1) // CONTEXT
    return Concatenate().chunk(Documents.join([ids.astype(np.int32)], codec), CONTEXT, "train")


def batches(source: Sequences, batch_size: int, *, seed: int = 0, shuffle: bool = True, process: int = 0, of: int = 1):
    return TrainBatches(
        source, batch_size=batch_size, seed=seed, shuffle=shuffle, process_index=process, process_count=of
    )


def first(batch: Batch) -> list[int]:
    """Which sequences a batch holds."""
    return batch.tokens[:, 0].tolist()


def test_each_epoch_holds_every_sequence_once_in_an_order_of_its_own():
    order = [i for batch in islice(batches(sequences(10), 4), 10) for i in first(batch)]
    epochs = [order[i : i + 10] for i in range(0, 40, 10)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4
    plain = [i for batch in islice(batches(sequences(10), 4, shuffle=False), 5) for i in first(batch)]
    assert plain == [*range(10), *range(10)]


def test_the_order_depends_on_the_seed_alone():
    def order(seed: int) -> list[int]:
        return [i for batch in islice(batches(sequences(10), 4, seed=seed), 5) for i in first(batch)]

    assert order(3) == order(3) != order(4)
    assert order(-1) != order(1)
    assert order(0)[:10] == [0, 8, 9, 3, 7, 5, 1, 2, 6, 4]  # a change here changes every run's data


@pytest.mark.parametrize("of", [2, 4])
def test_processes_share_the_batch_that_one_would_have(of: int):
    source = FirstFit().chunk(
        Documents.join([np.arange(n, dtype=np.int32) for n in range(2, 30)], BytesCodec()), 32, "train"
    )
    whole = batches(source, 8)
    shares = [batches(source, 8, process=index, of=of) for index in range(of)]
    for _ in range(5):
        expected, parts = next(whole), [next(share) for share in shares]
        for name in NAMES:
            assert np.array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(expected, name))


@pytest.mark.bug("ray-project/ray#59842")
def test_a_batch_that_processes_do_not_divide_is_refused():
    with pytest.raises(ConfigError, match="batch_size=10 cannot be divided among 4 processes"):
        batches(sequences(10), 10, process=0, of=4)
    with pytest.raises(ConfigError, match="batch_size=10 cannot be divided among 4 processes"):
        evaluation_batches(sequences(10), batch_size=10, process_index=0, process_count=4)


@pytest.mark.bug("pytorch/torchtitan#1082")
def test_a_resumed_process_goes_on_at_its_own_place():
    gone_on = [batches(sequences(7), 4, process=index, of=2) for index in range(2)]
    for stream in gone_on:
        for _ in range(9):
            next(stream)
    for index, stream in enumerate(gone_on):
        state = json.loads(json.dumps(stream.get_state()))
        resumed = batches(sequences(7), 4, process=index, of=2)
        resumed.set_state(state)
        assert [first(next(resumed)) for _ in range(5)] == [first(next(stream)) for _ in range(5)]


@pytest.mark.bug("pytorch/torchtitan#838")
def test_resuming_replays_nothing(monkeypatch: pytest.MonkeyPatch):
    source = sequences(7)
    stream = batches(source, 4)
    next(stream)
    state = stream.get_state()
    state["iterator"] = {name: value * 10**9 for name, value in state["iterator"].items()}
    read = []
    gather = source.gather
    monkeypatch.setattr(source, "gather", lambda indices: read.append(indices) or gather(indices))
    stream.set_state(state)
    next(stream)
    assert len(read) == 1


def test_a_state_of_other_data_is_refused():
    state = batches(sequences(10), 4).get_state()
    batches(sequences(10), 4, process=0, of=2).set_state(state)  # other processes, the same data
    for other in (
        batches(sequences(11), 4),
        batches(sequences(10), 5),
        batches(sequences(10), 4, seed=1),
        batches(sequences(10), 4, shuffle=False),
    ):
        with pytest.raises(ConfigError, match="the run to resume was trained on other data"):
            other.set_state(state)


@pytest.mark.bug("google/uncertainty-baselines#303", "NovaSky-AI/SkyRL#1589", "huggingface/transformers#41898")
@pytest.mark.parametrize(("count", "batch_size"), [(10, 4), (3, 8), (8, 4), (1, 1), (10, 1)])
def test_evaluation_counts_every_sequence_once_whatever_the_batch(count: int, batch_size: int):
    source = sequences(count)
    found = list(evaluation_batches(source, batch_size=batch_size, process_index=0, process_count=1))
    assert {batch.tokens.shape for batch in found} == {(batch_size, CONTEXT)}
    weights = np.concatenate([batch.weights for batch in found])
    targets = np.concatenate([batch.targets for batch in found])[weights > 0]
    assert weights.sum() == source.report.targets
    assert targets.tolist() == source.tokens[1:].tolist()  # in order, too


@pytest.mark.bug("horovod/horovod#708", "argonne-lcf/dlio_benchmark#339")
def test_every_process_evaluates_equally_many_batches():
    source = sequences(9)  # in shares of 2: the third batch holds one sequence, and none for the second process
    shares = [
        list(evaluation_batches(source, batch_size=4, process_index=index, process_count=2)) for index in range(2)
    ]
    assert [len(share) for share in shares] == [3, 3]
    assert sum(float(batch.weights.sum()) for share in shares for batch in share) == source.report.targets
    assert Counter(int(t) for s in shares for b in s for t in b.targets[b.weights > 0]) == Counter(
        source.tokens[1:].tolist()
    )


def test_a_batch_has_the_arrays_that_its_chunking_needs():
    plain = next(batches(sequences(5), 2))
    assert plain.positions is None and plain.segments is None and plain.source is None
    packed = FirstFit().chunk(Documents.join([np.arange(9, dtype=np.int32)] * 3, BytesCodec()), 16, "train")
    batch = next(batches(packed, 2))
    assert all(getattr(batch, name).shape == (2, 16) for name in NAMES)
