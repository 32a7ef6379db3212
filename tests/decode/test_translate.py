"""Lines through a model that copies what it reads: each comes out as it was, at its own place."""

from __future__ import annotations

import inspect
from argparse import ArgumentParser
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

from txjax import api
from txjax.batch import Batch
from txjax.cli.translate import SEARCH as OPTIONS
from txjax.cli.translate import add_options
from txjax.config import Encoder, Model
from txjax.data.codec import Codec, Symbols
from txjax.data.tokenizers.words import Words
from txjax.decode import BeamSearch, translate
from txjax.schema import ConfigError

LINES = ["ein orange@@ ner hut", "ein hut", "", "der orange hut ist ein hut", " ", "hut", "ein hut ein hut ein"]
CODEC = Words().build(LINES)
END = CODEC.separator or 0
CONFIG = Model(context=16, encoder=Encoder())
SEARCH = BeamSearch(end=END, size=2, length_penalty=1.0, penalty="wu", stop="certain", ratio=1.0, extra=3)


class Reading(NamedTuple):
    source_BS: jax.Array
    place_B: jax.Array


class Copier:
    """The next id is the source's next. It keeps the part of the Model contract that decoding needs.

    batches: how many rows of source each program was made for. sources, starts: the rows that were read.
    """

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.sources: list[list[int]] = []
        self.starts: list[list[int]] = []

    def prefill(self, params: Any, batch: Batch, cache_len: int) -> tuple[jax.Array, Reading]:
        self.batches.append(batch.source.shape[0])
        reading = Reading(jnp.asarray(batch.source), jnp.zeros(batch.source.shape[0], jnp.int32))
        jax.debug.callback(lambda rows: self.starts.extend(rows.tolist()), batch.tokens)
        jax.debug.callback(lambda rows: self.sources.extend(rows.tolist()), batch.source)
        return self.logits(reading), reading

    def step(self, params: Any, tokens: jax.Array, cache: Reading) -> tuple[jax.Array, Reading]:
        reading = Reading(cache.source_BS, cache.place_B + 1)
        return self.logits(reading), reading

    def rows(self, cache: Reading, rows_B: jax.Array) -> Reading:
        return Reading(cache.source_BS[rows_B], cache.place_B[rows_B])

    def logits(self, reading: Reading) -> jax.Array:
        next_B = jnp.take_along_axis(reading.source_BS, reading.place_B[:, None], axis=1)[:, 0]
        return 9.0 * jax.nn.one_hot(next_B, CODEC.vocab_size)


def translated(lines: list[str], batch_size: int, **more: Any) -> list[str]:
    how = {"search": SEARCH, "batch_size": batch_size} | more
    return translate(Copier(), None, CONFIG, CODEC, lines, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [2, 64])
def test_every_line_comes_out_at_its_place_joined_and_blank_ones_stay_blank(batch_size: int):
    want = ["ein orangener hut", "ein hut", "", "der orange hut ist ein hut", "", "hut", "ein hut ein hut ein"]
    done: list[int] = []
    model = Copier()
    how = {"search": SEARCH, "batch_size": batch_size, "advance": done.append}
    assert translate(model, None, CONFIG, CODEC, LINES, **how) == want  # type: ignore[arg-type]
    assert done == ([4, 6, 7] if batch_size == 2 else [7])
    assert set(model.batches) == {min(batch_size, 5)}  # one program, of no more rows than there are lines
    jax.effects_barrier()
    assert {tuple(row) for row in model.starts} == {(END,)}


def test_a_source_is_framed_and_a_text_begun_as_the_codec_says():
    der, ein, hut = CODEC.encode("der ein hut").tolist()

    class Framed(Codec):
        pieces, separator, bos, begins = CODEC.pieces, END, der, (ein, der)
        encode, piece = staticmethod(CODEC.encode), staticmethod(CODEC.piece)

    model = Copier()
    how = {"search": SEARCH, "batch_size": 1}
    assert translate(model, None, CONFIG, Framed(), ["hut"], **how) == ["hut"]  # type: ignore[arg-type]
    jax.effects_barrier()
    assert model.starts == [[ein, der]]
    assert model.sources[0][:3] == [der, hut, END] and not any(model.sources[0][3:])


def test_no_lines_are_no_lines():
    assert translated([], 4) == []
    assert translated(["", ""], 4) == ["", ""]


def test_a_line_that_the_model_cannot_read_is_named():
    with pytest.raises(ConfigError, match="line 2 has 18 tokens, and the model reads 16: shorten or split it"):
        translated(["hut", "hut " * 17], 4)


def test_what_cannot_translate_is_refused():
    with pytest.raises(ConfigError, match="translate needs a model with an encoder"):
        translate(Copier(), None, Model(), CODEC, ["hut"], search=SEARCH, batch_size=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="batch_size must be at least 1, got 0"):
        translated(["hut"], 0)
    with pytest.raises(ConfigError, match="a tokenizer of kind symbols has no id that ends a text"):
        translate(Copier(), None, CONFIG, Symbols(["hut"]), ["hut"], search=SEARCH, batch_size=1)  # type: ignore[arg-type]


def test_the_command_hands_on_what_it_is_given_and_no_defaults_of_its_own():
    parser = ArgumentParser()
    add_options(parser)
    given = ["--workdir=x", "--from=y"]
    assert not set(OPTIONS) & set(vars(parser.parse_args(given)))
    assert vars(parser.parse_args([*given, "--beam=3"]))["beam"] == 3
    assert set(OPTIONS) < set(inspect.signature(api.translate).parameters)
