"""Texts as vectors: the mean over real tokens, whatever else is in the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import txjax
from txjax.api import Loaded
from txjax.batch import Batch
from txjax.config import Config, Data, Model
from txjax.data.tokenizers.bytes import Bytes
from txjax.models import build, presets
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import PoolerHead
from txjax.probe.sentences import sentence_vectors

MODEL = presets.bert(8, 1, 2, vocab_size=300, context=40, head=PoolerHead(), remat="none")
ROWS = [[5, 6, 7], [8], list(range(10, 30)), [5, 6, 7, 9]]


def weights(model: Model) -> Any:
    random = np.random.default_rng(1)
    shapes = build(model).shapes()
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * random.standard_normal(leaf.shape), jnp.float32), shapes)


PARAMS = weights(MODEL)


@pytest.mark.parametrize("how", ["mean", "first", "last"])
def test_a_text_has_the_vector_that_it_has_alone(how: Any):
    """Rows of other lengths beside it, padding after it and where it stands in the batch change nothing."""
    got = sentence_vectors(MODEL, PARAMS, ROWS, how=how, batch_size=2)
    encoder = build(presets.bert(8, 1, 2, vocab_size=300, context=40, head=NoHead(), remat="none"))
    for row, vector in zip(ROWS, got, strict=True):
        states = np.asarray(encoder.apply(PARAMS, Batch(tokens=jnp.array([row]))).hidden[0], np.float64)
        want = {"mean": states.mean(0), "first": states[0], "last": states[-1]}[how]
        np.testing.assert_allclose(vector, want / np.linalg.norm(want), atol=1e-5)


def test_texts_are_cut_at_the_context_and_one_text_is_a_list_of_one():
    config = Config(model=MODEL, data=Data(context=20))
    run = Loaded(config, build(MODEL), PARAMS, Bytes().build([]), 0, Path())
    long = "a sentence longer than twenty bytes"
    got = txjax.embed(run, [long, long[:20], "short"])
    np.testing.assert_allclose(got[0], got[1], atol=1e-6)
    assert not np.allclose(got[0], got[2], atol=1e-2)
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(txjax.embed(run, "short"), got[2:], atol=1e-6)
