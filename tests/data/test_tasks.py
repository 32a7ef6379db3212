"""Synthetic tasks: a plain program solves each, and nothing but what is asked for gives the answer away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from txjax.config import Config, Data, Model, Source
from txjax.data.dataset import Dataset, load
from txjax.data.sources.copy import Copy
from txjax.data.sources.delayed_recall import DelayedRecall
from txjax.data.sources.induction import Induction
from txjax.data.sources.modular import Modular
from txjax.data.sources.multi_relation import MultiRelation
from txjax.data.sources.order import Order
from txjax.data.sources.retrieval import Retrieval
from txjax.data.sources.reverse import Reverse
from txjax.data.sources.sort import Sort
from txjax.data.task import Task

KINDS = {kind: member for kind, member in Source.members().items() if issubclass(member, Task)}
MQAR: dict[str, Any] = {"pairs": 4, "keys": 127, "values": 128, "queries": 4, "length": 64, "value_draws": "distinct"}

# ---------------------------------------------------------------- solvers, on the names of an example's tokens


def after_mark(solve: Callable[[list[str]], list[str]]) -> Callable[[list[str]], dict[int, str]]:
    """Answers that follow a mark, from what stands before it."""

    def answers(names: list[str]) -> dict[int, str]:
        mark = next(place for place, name in enumerate(names) if name in ("=", "?"))
        return {mark + number: answer for number, answer in enumerate(solve(names[:mark]))}

    return answers


def look_up(pairs: int) -> Callable[[list[str]], dict[int, str]]:
    def answers(names: list[str]) -> dict[int, str]:
        values = dict(zip(names[0 : 2 * pairs : 2], names[1 : 2 * pairs : 2], strict=True))
        assert len(values) == pairs
        return {at: values[names[at]] for at in range(2 * pairs, len(names)) if names[at] in values}

    return answers


def look_up_joined(pairs: int) -> Callable[[list[str]], dict[int, str]]:
    def answers(names: list[str]) -> dict[int, str]:
        values = dict(name.split("v") for name in names[:pairs])
        assert len(values) == pairs
        return {at: f"v{values[names[at]]}" for at in range(pairs, len(names)) if names[at] in values}

    return answers


def induce(names: list[str]) -> dict[int, str]:
    """What came after the same symbol the first time, for as long as the symbols go on as they did then."""
    found: dict[int, str] = {}
    start = next(at for at, name in enumerate(names) if name in names[:at])
    for at in range(start, start + 11):  # 12 symbols, of which the first cannot be foreseen
        found[at] = names[names.index(names[at]) + 1]
    return found


def relations(names: list[str]) -> dict[int, str]:
    digits = [int(name[1:]) for name in names]
    return {
        at: f"c{sum(digits[at - offset] * 4 ** (offset - 1) for offset in (1, 2, 3, 4))}" for at in range(4, len(names))
    }


def compose(names: list[str]) -> list[str]:
    value, results = int(names[0]), []
    for name in names[1:]:
        value = (value + int(name[1:])) % 7 if name[0] == "+" else (value * int(name[1:])) % 7
        results.append(str(value))
    return results


SOLVED: list[tuple[Task, Callable[[list[str]], dict[int, str]]]] = [
    (Copy(), after_mark(lambda string: string)),
    (Reverse(), after_mark(lambda string: [*reversed(string)])),
    (Sort(), after_mark(lambda string: sorted(string, key=lambda name: int(name[1:])))),
    (Retrieval(), look_up(16)),
    (Retrieval(**MQAR), look_up(4)),
    (Retrieval(pairs=6, queries=3, length=40), look_up(6)),
    (Retrieval(pairing="joined"), look_up_joined(16)),
    (Retrieval(pairing="joined", pairs=5, queries=3, length=20), look_up_joined(5)),
    (Induction(), induce),
    (Induction(gap=0), induce),
    (MultiRelation(), relations),
    (DelayedRecall(), after_mark(lambda seen: seen[:1])),
    (DelayedRecall(count=10, gap=20), after_mark(lambda seen: seen[:10])),
    (Order(), after_mark(lambda seen: [min(seen[-2:], key=seen.index)])),
    (Modular(), after_mark(lambda seen: compose(seen)[-1:])),
    (Modular(answer="scratchpad"), after_mark(compose)),
]


def load_task(task: Task, **model: Any) -> Dataset:
    return load(Config(model=Model(context=512, **model), data=Data(source=task)))


@pytest.mark.parametrize(("task", "solve"), SOLVED, ids=lambda value: getattr(value, "kind", ""))
def test_a_plain_program_solves_every_example(task: Task, solve: Callable[[list[str]], dict[int, str]]):
    data = load_task(task)
    rows = data.train.for_seed(3).gather(np.arange(200))
    names = task.names
    for tokens, targets, weights in zip(rows["tokens"], rows["targets"], rows["weights"], strict=True):
        wanted = {int(at): names[targets[at]] for at in np.flatnonzero(weights)}
        assert solve([names[token] for token in tokens]) == wanted
    assert set(np.unique(rows["weights"])) <= {0.0, 1.0}


def test_every_kind_has_a_solver():
    assert set(KINDS) == {task.kind for task, _ in SOLVED}


@pytest.mark.parametrize("task", [task for task, _ in SOLVED], ids=lambda task: task.kind)
def test_ids_are_inside_the_vocabulary_and_every_one_is_used(task: Task):
    rows = load_task(task).train.gather(np.arange(4000))
    used = np.union1d(rows["tokens"], rows["targets"][rows["weights"] > 0])
    assert used.min() >= 0 and used.max() < len(task.names) == len(set(task.names))
    assert len(used) >= len(task.names) - (0 if task.kind != "retrieval" else 1)  # its blank may have no place
    assert rows["tokens"].shape == (4000, task.context)


@pytest.mark.parametrize("task", [task for task, _ in SOLVED], ids=lambda task: task.kind)
def test_the_trivial_loss_is_the_entropy_of_what_is_asked(task: Task):
    data = load_task(task)
    rows = data.train.gather(np.arange(4000))
    counts = np.bincount(rows["targets"][rows["weights"] > 0])
    shares = counts[counts > 0] / counts.sum()
    measured = -(shares * np.log(shares)).sum()
    slack = (len(shares) - 1) / (2 * counts.sum())  # by which a sample's entropy falls short, Miller 1955
    assert data.trivial_loss() == pytest.approx(math.log(task.answers))
    assert measured + slack == pytest.approx(data.trivial_loss(), abs=5e-3)
    constant = np.max(shares)  # the accuracy of a predictor that always says the same
    assert constant < 1 / task.answers + 5 * np.sqrt(1 / task.answers / counts.sum()) + 1e-9


def test_the_pair_says_nothing_about_which_came_first():
    """Without a sense of order one half is the best: by the place in the question, or by the symbol."""
    rows = load_task(Order(length=4, symbols=4)).train.gather(np.arange(4000))
    first_asked = rows["tokens"][:, 4] == rows["targets"][:, -1]
    larger = rows["tokens"][:, 4:6].max(1) == rows["targets"][:, -1]
    for share in (first_asked.mean(), larger.mean()):
        assert abs(share - 0.5) < 0.04


# ---------------------------------------------------------------- MQAR


def test_multi_query_recall_has_the_published_ids_and_places():
    """HazyResearch/zoology: keys 1 .. V/2 - 1, values V/2 .. V - 1, 0 elsewhere; queries on even places."""
    rows = load_task(Retrieval(**MQAR)).train.gather(np.arange(2000))
    tokens, asked = rows["tokens"], rows["weights"] > 0
    assert (tokens[:, 0:8:2].min(), tokens[:, 0:8:2].max()) == (1, 127)
    assert (tokens[:, 1:8:2].min(), tokens[:, 1:8:2].max()) == (128, 255)
    assert (np.diff(np.sort(tokens[:, 1:8:2], 1)) > 0).all()
    assert (asked.sum(1) == 4).all() and not asked[:, :8].any() and not asked[:, 1::2].any()
    assert (tokens[:, 8:][~asked[:, 8:]] == 0).all()


def test_queries_come_at_gaps_by_a_power_law_the_first_pair_choosing_first():
    rows = load_task(Retrieval(**MQAR)).train.gather(np.arange(20_000))
    slots = np.argmax(rows["tokens"][:, 8::2] == rows["tokens"][:, :1], 1)
    rates = np.arange(1, 29) ** -0.99
    wanted = 20_000 * rates / rates.sum()
    found = np.bincount(slots, minlength=28)
    assert (np.abs(found - wanted) / np.sqrt(wanted)).max() < 4.5


def test_random_filler_leaves_pairs_and_queries_as_they_are():
    blank = load_task(Retrieval(**MQAR)).train.gather(np.arange(50))
    noisy = load_task(Retrieval(**MQAR, filler="random")).train.gather(np.arange(50))
    assert np.array_equal(blank["targets"], noisy["targets"]) and np.array_equal(blank["weights"], noisy["weights"])
    kept = blank["tokens"] > 0
    assert np.array_equal(blank["tokens"][kept], noisy["tokens"][kept])
    assert len(np.unique(noisy["tokens"][~kept])) > 200
