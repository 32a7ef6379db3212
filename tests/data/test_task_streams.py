"""Tasks as sources: drawn alike by every process and again after a stop, chosen by flags, saved and shown."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Config, Data, Model, Source
from txjax.config.flags import override
from txjax.data import catalog
from txjax.data.codec import Symbols, load_codec
from txjax.data.dataset import Dataset, load
from txjax.data.pipeline import TrainBatches, evaluation_batches
from txjax.data.sources.copy import Copy
from txjax.data.sources.induction import Induction
from txjax.data.sources.modular import Modular
from txjax.data.sources.multi_relation import MultiRelation
from txjax.data.sources.order import Order
from txjax.data.sources.retrieval import Retrieval
from txjax.data.sources.reverse import Reverse
from txjax.data.sources.sort import Sort
from txjax.data.task import Task
from txjax.schema import ConfigError

KINDS = {kind: member for kind, member in Source.members().items() if issubclass(member, Task)}
MQAR = Retrieval(pairs=4, keys=127, values=128, queries=4, length=64, value_draws="distinct")


def load_task(task: Task, **model: Any) -> Dataset:
    return load(Config(model=Model(context=512, **model), data=Data(source=task)))


# ---------------------------------------------------------------- streams


def stream(task: Task, batch_size: int = 8, *, seed: int = 0, process: int = 0, of: int = 1) -> TrainBatches:
    train = load_task(task).train
    return TrainBatches(train, batch_size=batch_size, seed=seed, shuffle=True, process_index=process, process_count=of)


def rows_of(batches: list[Batch]) -> list[tuple[int, ...]]:
    return [tuple(row) for batch in batches for row in np.concatenate([batch.tokens, batch.targets], 1).tolist()]


def test_the_first_example_of_each_split_never_changes():
    data = load_task(Copy(length=6, symbols=9))
    splits = (data.train, data.train.for_seed(1), data.validation, data.split("test"))
    strings = [examples.gather(np.array([0]))["tokens"][0, :6].tolist() for examples in splits]
    assert strings == [[1, 4, 3, 9, 7, 5], [6, 2, 9, 1, 6, 2], [3, 7, 7, 7, 7, 6], [5, 3, 7, 9, 6, 8]]


@pytest.mark.parametrize("task", [Copy(), MQAR, Induction()], ids=lambda task: task.kind)
def test_training_is_fresh_by_seed_and_held_out_examples_are_fixed_and_apart(task: Task):
    data = load_task(replace(task, held_out=200))
    one, other = (rows_of(list(islice(stream(task, seed=seed), 50))) for seed in (1, 2))
    validation, test = (
        rows_of(list(evaluation_batches(split, batch_size=200, process_index=0, process_count=1)))
        for split in (data.validation, data.split("test"))
    )
    assert len({*one, *other, *validation, *test}) == 400 + 400 + 200 + 200
    assert one == rows_of(list(islice(stream(task, seed=1), 50)))
    again = load_task(replace(task, held_out=200))
    assert again.validation.gather(np.arange(200))["tokens"].tolist() == [
        list(row[: task.context]) for row in validation
    ]


def test_an_example_depends_on_its_number_alone():
    examples = load_task(MQAR).train.for_seed(5)
    whole = examples.gather(np.arange(40))
    some = np.array([39, 3, 3, 17])
    for name, array in examples.gather(some).items():
        assert np.array_equal(array, whole[name][some])


@pytest.mark.bug("pytorch/torchtitan#1082", "pytorch/torchtitan#838")
def test_a_resumed_stream_goes_on_and_reads_nothing_before(monkeypatch: pytest.MonkeyPatch):
    gone_on = stream(Sort(), process=1, of=2)
    for _ in range(7):
        next(gone_on)
    state = json.loads(json.dumps(gone_on.get_state()))
    resumed = stream(Sort(), process=1, of=2)
    read: list[np.ndarray] = []
    arrays = Task.arrays
    monkeypatch.setattr(Task, "arrays", lambda task, seed, split, at: read.append(at) or arrays(task, seed, split, at))
    resumed.set_state(state)
    assert rows_of([next(resumed)]) == rows_of([next(gone_on)])
    assert [at.tolist() for at in read] == [[60, 61, 62, 63]] * 2


@pytest.mark.parametrize("of", [2, 4])
def test_processes_share_the_batch_that_one_would_have(of: int):
    whole = rows_of(list(islice(stream(Copy()), 3)))
    shares = [list(islice(stream(Copy(), process=index, of=of), 3)) for index in range(of)]
    assert [row for step in range(3) for share in shares for row in rows_of([share[step]])] == whole


def test_a_state_of_another_task_knob_or_seed_is_refused():
    state = stream(Copy()).get_state()
    for other in (stream(Reverse()), stream(Copy(symbols=17)), stream(Copy(), seed=1), stream(Copy(), 16)):
        with pytest.raises(ConfigError, match="trained on other data"):
            other.set_state(state)
    stream(Copy(), process=1, of=2).set_state(state)


@pytest.mark.parametrize("batch_size", [7, 20, 64])
def test_evaluation_counts_every_held_out_example_once(batch_size: int):
    data = load_task(Copy(length=5, held_out=20))
    found = list(evaluation_batches(data.validation, batch_size=batch_size, process_index=0, process_count=1))
    assert sum(float(batch.weights.sum()) for batch in found) == 20 * 5
    scored = np.concatenate([batch.weights for batch in found]).sum(1) > 0
    kept = [row for row, use in zip(rows_of(found), scored, strict=True) if use]
    assert kept == rows_of([Batch(**data.validation.gather(np.arange(20)))])


# ---------------------------------------------------------------- configs


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_task_is_chosen_and_changed_by_flags(kind: str):
    flags = [f"--config.data.source={kind}", f"--config.data.source.{kind}.held_out=7"]
    config = override(Config(), flags)
    assert config.data.source == KINDS[kind](held_out=7)
    assert config.context == config.data.source.context == KINDS[kind]().context
    assert len(load(config).validation) == 7


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"tokenizer": "char"}, "tokenizer=char is not used where source=copy, a task with tokens, length"),
        ({"chunking": "crop"}, "chunking=crop is not used"),
        ({"context": 31}, r"context=31 is not used .* length \(32\)"),
        ({"validation": 0.2}, "validation=0.2 is not used"),
        ({"test": 0.1}, "test=0.1 is not used"),
        ({"shuffle": False}, "shuffle=False is not used"),
    ],
)
def test_what_a_task_does_not_use_is_refused(section: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        Data(source=Copy(), **section)
    assert Data(source=Copy(), context=32).context == 32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Copy(length=0), "length must be at least 1, got 0"),
        (lambda: Copy(held_out=0), "held_out must be at least 1, got 0"),
        (lambda: Retrieval(keys=15), "keys must be at least pairs=16, got 15"),
        (lambda: Retrieval(queries=17), "queries must be at most pairs=16, got 17"),
        (lambda: Retrieval(values=15, value_draws="distinct"), "values must be at least pairs=16 to be distinct"),
        (lambda: Retrieval(length=32), "length must be at least 33 for 16 pairs and 1 queries, got 32"),
        (lambda: Retrieval(power=0), "power must be positive"),
        (lambda: Induction(symbols=19), r"symbols must be at least segment \+ gap = 20, got 19"),
        (lambda: MultiRelation(length=4), "length must be more than relations=4, got 4"),
        (lambda: MultiRelation(symbols=17), r"at most 65,536 classes, got 17\^4"),
        (lambda: Order(symbols=15), "symbols must be at least length=16, got 15"),
        (lambda: Modular(modulus=9), "modulus must be a prime, such as 7, got 9"),
    ],
)
def test_knobs_that_make_no_task_are_refused(make: Callable[[], Task], message: str):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_model_too_small_for_the_task_is_refused():
    with pytest.raises(ConfigError, match=r"data.source=retrieval of 33 tokens runs past .* set model.context=33"):
        Config(model=Model(context=32), data=Data(source=Retrieval()))
    with pytest.raises(ConfigError, match="vocab_size=48 is smaller than the 49 ids"):
        load_task(Retrieval(), vocab_size=48)
    assert Config(model=Model(context=64), data=Data(source=Retrieval())).context == 33


# ---------------------------------------------------------------- symbols and pages


def test_the_codec_of_a_task_is_saved_and_reads_its_symbols(tmp_path: Path):
    codec = load_task(Modular()).codec
    codec.save(tmp_path)
    again = load_codec(tmp_path)
    assert isinstance(again, Symbols) and again.vocab_size == codec.vocab_size == 21
    ids = again.encode("3 +6 *4 =")
    assert again.decode(ids) == "3 +6 *4 =" and ids.dtype == np.int32
    stream = again.stream()
    assert "".join(stream.push([token]) for token in ids.tolist()) + stream.close() == "3 +6 *4 ="
    with pytest.raises(ConfigError, match=r"'\+7' is not among the task's 21 symbols"):
        again.encode("3 +7")
    assert load_task(Modular()).validation.target_bytes(codec) == again.byte_lengths().sum() == 0


def test_the_view_of_a_task_says_what_an_example_is():
    lines = catalog.show(Config(data=Data(source=Retrieval(pairs=2, held_out=50))), 1)
    page = "\n".join(lines)
    assert "vocabulary 49 ids" in page and "tokenizer" not in page
    assert "train      endless examples of retrieval: 5 tokens, 1 of them with a target" in page
    assert "test       50 examples of retrieval" in page
    assert lines[-2].split()[0] in lines[-2].split()[1:] or lines[-2].split()[2] in lines[-2].split()[3:]
    assert lines[-1].startswith("  at 4: v")


def test_every_symbol_name_is_a_word_of_its_own():
    for task in (member() for member in KINDS.values()):
        assert not any(set(name) & set(" \n\t") for name in task.names)
        assert all(a != b for a, b in itertools.pairwise(sorted(task.names)))
