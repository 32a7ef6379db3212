"""Beam search: against transformers, against all texts there are, and against a search that caches nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from plain_beam import all_texts, plain_beam
from scripted import Scripted
from tables import Tables
from weights import parameters

from txjax.batch import Batch
from txjax.config import Encoder, Layer, Model, SelfAttention
from txjax.decode import BeamSearch, Hypothesis, Sampling, beam_search, generate
from txjax.decode.beam import _loop
from txjax.models import Decoder, presets
from txjax.schema import ConfigError

END, VOCAB, CONTEXT = 0, 13, 48
SEARCH = BeamSearch(
    end=END, size=3, length_penalty=0.6, penalty="fairseq", stop="certain", ratio=0.0, extra=10, results=3
)
SEQ2SEQ = presets.llama(  # layers of both kinds that a cache has, and one that forgets
    16,
    2,
    2,
    hidden=24,
    vocab_size=VOCAB,
    context=CONTEXT,
    encoder=Encoder(num_layers=1),
    first_layers=(Layer(),),
    pattern=(Layer(mixer=SelfAttention(window=2)),),
)
ROWS = 4  # of the programs that tests share
SOURCES = [[5, 3, 8, END], [7, 7, 1, 4, 2, 9, 4, 6, 2, END], [*range(1, 13)] * 3 + [END]]
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "beam.json").read_text())


def assert_same(found: Sequence[Hypothesis], want: Sequence[Hypothesis], tolerance: float = 1e-4) -> None:
    assert [one.ids for one in found] == [one.ids for one in want]
    np.testing.assert_allclose(
        [one.score for one in found], [one.score for one in want], atol=tolerance, rtol=tolerance
    )


def searched(model: Model, sources: Sequence[list[int]], search: BeamSearch, **more: Any) -> list[list[Hypothesis]]:
    how = {"sources": sources, "search": search, "context": CONTEXT, "rows": ROWS} | more
    return beam_search(Decoder(model), parameters(model), [[END]] * len(sources), **how)


@cache
def next_logp(model: Model) -> Any:
    """log P of the next id after a text, by a pass over all of it."""
    decoder, params = Decoder(model), parameters(model)

    @jax.jit
    def logp(source: jax.Array, real: jax.Array, tokens: jax.Array, last: jax.Array) -> jax.Array:
        batch = Batch(tokens=tokens[None], source=source[None], source_segments=real[None])
        return jax.nn.log_softmax(decoder.apply(params, batch).logits[0, last])  # type: ignore[index]

    return logp


def anew(model: Model, source: list[int]) -> Callable[[list[int]], np.ndarray]:
    def logp_of(ids: list[int]) -> np.ndarray:
        padded = np.array(source + [0] * (CONTEXT - len(source)))
        text = np.array([END, *ids] + [0] * (16 - len(ids)))
        return np.asarray(next_logp(model)(padded, np.arange(CONTEXT) < len(source), text, len(ids)))

    return logp_of


# ---------------------------------------------------------------- oracles


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: "{size}-{length_penalty}-{stop}".format(**case))
def test_transformers_finds_the_same(case: dict[str, Any]):
    """tests/golden/make_beam.py made them; all k texts, all in one batch."""
    model = Tables(np.array(GOLDEN["by_last"]) / 1000, np.array(GOLDEN["by_length"]) / 1000)
    how = {name: case[name] for name in ("size", "length_penalty", "stop")}
    search = replace(SEARCH, end=GOLDEN["end"], extra=GOLDEN["new"], results=case["size"], **how)
    found = beam_search(model, None, GOLDEN["prompts"], search=search, context=None)  # type: ignore[arg-type]
    for row, want in zip(found, case["found"], strict=True):
        assert_same(row, [Hypothesis(**text) for text in want])


def test_the_golden_cases_tell_rules_apart():
    """Another beam or penalty is another result in them; with a penalty another stop too."""
    found = {(case["size"], case["length_penalty"], case["stop"]): case["found"] for case in GOLDEN["cases"]}
    for size in (2, 4):
        for alpha in (0.6, 2.0):
            assert found[size, alpha, "certain"] != found[size, alpha, "full"] != found[size, 0.0, "full"]
    lengths = {len(text["ids"]) for rows in found.values() for row in rows for text in row}
    assert {1, GOLDEN["new"]} < lengths  # some had to end


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("penalty", ["fairseq", "wu"])
def test_a_beam_into_which_all_fits_finds_the_best_of_all_texts(penalty: Any, alpha: float):
    random = np.random.default_rng(0)
    model = Tables(random.normal(size=(5, 5, 5)), random.normal(size=(7, 5)))
    prompt, longest = [3, 1], 4

    def logp_of(ids: list[int]) -> np.ndarray:
        seen = [*prompt, *ids]
        return np.asarray(jax.nn.log_softmax(model.by_last[seen[-2], seen[-1]] + model.by_length[len(seen) % 7]))

    search = replace(SEARCH, length_penalty=alpha, penalty=penalty, size=80, results=10, extra=longest)
    texts = all_texts(logp_of, search, longest)
    assert len(texts) == 1 + 4 + 16 + 64
    [found] = beam_search(model, None, [prompt], search=search, context=None)  # type: ignore[arg-type]
    assert_same(found, texts[:10])
    for size in (1, 2, 5):
        few = replace(search, size=size, results=1)
        [[best]] = beam_search(model, None, [prompt], search=few, context=None)  # type: ignore[arg-type]
        assert best.score <= found[0].score + 1e-6


@pytest.mark.parametrize("stop", ["certain", "full"])
@pytest.mark.parametrize(("penalty", "alpha"), [("fairseq", 0.0), ("fairseq", 1.5), ("wu", 1.0)])
def test_with_a_cache_as_without(penalty: Any, alpha: float, stop: Any):
    """The cache goes with the beams: over an encoder, in layers of both kinds, in a batch of unequal sources."""
    search = replace(SEARCH, penalty=penalty, length_penalty=alpha, stop=stop)
    found = searched(SEQ2SEQ, SOURCES, search)
    for source, row in zip(SOURCES, found, strict=True):
        want, _ = plain_beam(anew(SEQ2SEQ, source), search, 10)
        assert_same(row, want)


def test_certain_is_what_a_search_to_the_very_end_finds():
    """Whatever is asked for, one text or three; and it does stop before the end."""
    stopped = []
    for results in (1, 3):
        for alpha in (0.0, 0.6, 1.0):
            search = replace(SEARCH, results=results, length_penalty=alpha)
            for source, row in zip(SOURCES, searched(SEQ2SEQ, SOURCES, search), strict=True):
                want, _ = plain_beam(anew(SEQ2SEQ, source), search, 10, early=False)
                assert_same(row, want)
                stopped.append(plain_beam(anew(SEQ2SEQ, source), search, 10)[1])
    assert min(stopped) < 10 == max(stopped)


def test_one_beam_is_greedy():
    search = replace(SEARCH, size=1, results=1, stop="full", extra=12, length_penalty=1.0)
    greedy = generate(
        Decoder(SEQ2SEQ),
        parameters(SEQ2SEQ),
        [[END]] * 3,
        sources=SOURCES,
        tokens=12,
        sampling=Sampling(temperature=0.0, end=END),
        seeds=[0, 1, 2],
        context=CONTEXT,
    )
    found = searched(SEQ2SEQ, SOURCES, search)
    assert [best.ids[:11] for [best] in found] == [ids[:11] for ids in greedy]  # the twelfth has to be the end
    assert len({token for ids in greedy for token in ids}) > 3
    assert {len(ids) for ids in greedy} > {12}  # some end by themselves


# ---------------------------------------------------------------- batches


@pytest.mark.bug("T040", "huggingface/transformers#47946", "RUCAIBox/TextBox#101")
def test_a_batch_is_what_its_rows_are_alone_and_rows_that_nobody_asked_for_change_nothing():
    """The sources have 4, 10 and 37 ids: alone they are padded to 32 or 48, together all to 48."""
    together = searched(SEQ2SEQ, SOURCES, SEARCH)
    assert len(together) == 3
    for source, row in zip(SOURCES, together, strict=True):
        assert_same(row, searched(SEQ2SEQ, [source], SEARCH)[0], 1e-5)


def test_an_uneven_last_batch_and_other_numbers_have_the_program_of_the_others():
    searched(SEQ2SEQ, SOURCES, SEARCH)
    before = _loop._cache_size()
    searched(SEQ2SEQ, SOURCES[2:], SEARCH)
    searched(SEQ2SEQ, SOURCES, replace(SEARCH, length_penalty=0.3, penalty="wu", stop="full", results=1, extra=7))
    assert _loop._cache_size() == before


# ---------------------------------------------------------------- where a text ends


def scripted(texts: dict[int, list[int]], search: BeamSearch, **more: Any) -> tuple[list[list[Hypothesis]], int]:
    """What is found after each of the first ids, and the steps it took."""
    steps: list[None] = []
    model = Scripted(texts, VOCAB, stepped=lambda: steps.append(None), **more)
    found = beam_search(model, None, [[first] for first in texts], search=search, context=None)  # type: ignore[arg-type]
    jax.effects_barrier()
    return found, len(steps)


def test_no_text_goes_on_after_its_end_and_the_search_stops_with_the_last():
    texts = {1: [9, 4, 5, END, 8, 8], 2: [9, 3, END, 7], 3: [9, END]}
    found, steps = scripted(texts, replace(SEARCH, size=4, results=4, extra=200, stop="full"), certainty=9.0)
    assert [row[0].ids for row in found] == [[4, 5, END], [3, END], [END]]
    for row in found:
        assert len(row) == 4
        assert [text.ids.count(END) for text in row] == [1] * 4 == [text.ids[-1:].count(END) for text in row]
        assert sorted(row, key=lambda text: -text.score) == row
    _, sure = scripted(texts, replace(SEARCH, size=4, results=1, extra=200, length_penalty=0.0), certainty=9.0)
    assert sure == 2  # the longest has three ids, of which the first needs no step
    assert steps < 20


def test_the_longest_text():
    """ratio |source| + extra, the limit, and what the model holds: the text has to end there, and pays for it."""
    model = Scripted({1: [5]}, VOCAB, certainty=20.0)
    greedy = replace(SEARCH, size=1, results=1, stop="full", length_penalty=0.0)

    def length(context: int | None = None, **fields: Any) -> int:
        [[best]] = beam_search(model, None, [[1]], search=replace(greedy, **fields), context=context)  # type: ignore[arg-type]
        assert best.ids == [5] * (len(best.ids) - 1) + [END]
        assert -21 < best.score < -19
        return len(best.ids)

    assert length(extra=10) == 10
    assert length(extra=10, longest=6) == 6
    assert length(extra=10, longest=16) == 10
    assert length(extra=10, context=4) == 4  # the last id is not read
    for source, row in zip(SOURCES, searched(SEQ2SEQ, SOURCES, replace(SEARCH, ratio=0.5, extra=1)), strict=True):
        assert max(len(text.ids) for text in row) == len(source) // 2 + 1


def test_ids_without_a_token_are_never_chosen():
    model = Scripted({1: [9, 7, 7, 7, 7]}, VOCAB, certainty=5.0)
    [row] = beam_search(model, None, [[1]], search=replace(SEARCH, limit=7), context=None)  # type: ignore[arg-type]
    assert max(token for text in row for token in text.ids) < 7


def test_what_is_never_written_costs_no_other_id_anything():
    """The rest are as likely as without it."""
    without, never = (Scripted({1: [9, 7, 7, 7, 7]}, size, certainty=5.0) for size in (7, VOCAB))
    search = replace(SEARCH, never=tuple(range(7, VOCAB)))
    [want] = beam_search(without, None, [[1]], search=SEARCH, context=None)  # type: ignore[arg-type]
    [found] = beam_search(never, None, [[1]], search=search, context=None)  # type: ignore[arg-type]
    assert_same(found, want)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"size": 0}, "beam must be at least 1, got 0"),
        ({"results": 4}, "results must be from 1 to beam=3, got 4"),
        ({"length_penalty": -1.0}, "length_penalty must not be negative, got -1.0"),
        ({"ratio": -0.5}, "ratio must not be negative"),
        ({"longest": 0}, "longest must be at least 1 or none, got 0"),
        ({"limit": 0}, "end must be an id of the vocabulary, got 0"),
        ({"never": (3, END)}, r"end=0 is among never=\(3, 0\): no text could end"),
    ],
)
def test_a_search_that_means_nothing_is_refused(change: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        replace(SEARCH, **change)


@pytest.mark.parametrize(
    ("prompts", "change", "complaint"),
    [
        ([], {}, "there is no prompt"),
        ([[1], []], {}, "prompt 1 has no tokens"),
        ([[1]], {"sources": [[1], [2]]}, "1 prompts need 1 sources, got 2"),
        ([[1]], {"sources": [[]]}, "source 0 has no tokens"),
        ([[1]], {"sources": [[99]], "search": replace(SEARCH, limit=VOCAB)}, "source 0 has the id 99, outside the voc"),
        ([[1]], {"sources": [[9]], "source_limit": 8}, "source 0 has the id 9, outside the vocabulary of 8 ids"),
        ([[1] * 5], {"context": 4}, "prompt 0 of 5 tokens leaves no room for a text: ratio=0.0, extra=10"),
        ([[1]], {}, "needs batch.source, what its encoder reads"),
        ([[1]], {"sources": [[1] * 99], "context": None, "bounded": True}, "a source of 128 tokens runs past"),
    ],
)
def test_what_cannot_be_searched_is_refused(prompts: Any, change: dict[str, Any], complaint: str):
    model = replace(SEQ2SEQ, position="learned") if change.get("bounded") else SEQ2SEQ
    how = {"search": SEARCH, "context": CONTEXT} | {key: value for key, value in change.items() if key != "bounded"}
    with pytest.raises(ConfigError, match=complaint):
        beam_search(Decoder(model), parameters(model), prompts, **how)
