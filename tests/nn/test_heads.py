"""Heads of encoders: what they read of padded rows, what they make of it, and the losses that they add."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from txjax.batch import Batch
from txjax.config import SGD, Config, Head, Model, Optim, Train
from txjax.models import presets
from txjax.models.decoder import Decoder
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import Pool, PoolerHead, pool
from txjax.nn.heads.replaced import Replaced
from txjax.nn.heads.tied import Tied
from txjax.ops.norms import BatchNorm
from txjax.schema import ConfigError
from txjax.train.state import hyper, initial_state
from txjax.train.step import make_evaluation_step, make_train_step

WIDTH, VOCAB, LENGTH = 8, 20, 6
RANDOM = np.random.default_rng(0)
TOKENS = RANDOM.integers(0, VOCAB, (2, LENGTH)).astype(np.int32)
REAL = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
every_pool = pytest.mark.parametrize("how", get_args(Pool))


def bert(head: Head, **more: Any) -> Model:
    sizes = {"vocab_size": VOCAB, "context": LENGTH, "remat": "none"}
    return presets.bert(WIDTH, 1, 2, head=head, **{**sizes, **more})


def weights(model: Model) -> Any:
    """Random ones: initial biases are zero and would hide."""
    random = np.random.default_rng(1)
    shapes = Decoder(model).shapes()
    return jax.tree.map(lambda leaf: jnp.asarray(0.5 * random.standard_normal(leaf.shape), jnp.float32), shapes)


def logits(model: Model, batch: Batch, params: Any = None) -> np.ndarray:
    with jax.disable_jit():
        return np.asarray(Decoder(model).apply(weights(model) if params is None else params, batch).logits)


# ---------------------------------------------------------------- pooling


@every_pool
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_pooled_vector_is_that_of_the_row_without_its_padding(how: Pool, side: str):
    real = REAL if side == "right" else REAL[:, ::-1]
    x_BTD = RANDOM.standard_normal((2, LENGTH, WIDTH)).astype(np.float32)
    for row in (0, 1):
        alone = x_BTD[row : row + 1, real[row] > 0]
        want = {"first": alone[:, 0], "last": alone[:, -1], "mean": alone.mean(1)}[how]
        np.testing.assert_allclose(pool(jnp.asarray(x_BTD), real, how)[row], want, rtol=1e-5, atol=1e-6)


@every_pool
@pytest.mark.bug("jax-ml/jax#17070", "T041")
def test_no_gradient_flows_from_padding_and_none_is_nan(how: Pool):
    x_BTD = np.where(np.repeat(REAL[..., None], WIDTH, 2) > 0, 1.0, np.nan).astype(np.float32)
    x_BTD[1] = np.nan  # a row that fills up a batch
    segments = REAL.copy()
    segments[1] = 0
    weight_B = jnp.array([1.0, 0.0])[:, None, None]

    def total(x: jax.Array) -> jax.Array:
        return jnp.where(weight_B > 0, pool(x, segments, how), 0.0).sum()

    value, gradient = jax.value_and_grad(total)(jnp.asarray(x_BTD))
    assert value == WIDTH
    per_token = {"first": [1, 0, 0], "mean": [1 / 3] * 3, "last": [0, 0, 1]}[how]
    np.testing.assert_allclose(gradient[0, :, 0], [*per_token, 0, 0, 0], rtol=1e-6)
    assert not gradient[1].any()


POOLED = [Classes(3, pool=how) for how in get_args(Pool)] + [Classes(3, pooler="tanh"), PoolerHead()]


@pytest.mark.parametrize("head", POOLED, ids=str)
@pytest.mark.bug("huggingface/transformers#46634")
def test_padding_changes_no_logit_of_a_row(head: Head):
    model = bert(head)
    want = logits(model, Batch(tokens=TOKENS[:1, :3]))
    for filler in (0, 7):
        padded = Batch(tokens=np.where(REAL > 0, TOKENS, filler), segments=REAL)
        np.testing.assert_allclose(logits(model, padded)[:1], want, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- what they compute


def affine(params: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(params["w"]) + np.asarray(params["b"])


def test_logits_are_the_formulas_of_their_docstrings():
    params = weights(bert(Classes(3, pooler="tanh")))
    states = logits(bert(NoHead()), Batch(tokens=TOKENS), params)
    v = np.tanh(affine(params["pooler"]["dense"], states[:, :1]))
    np.testing.assert_allclose(logits(bert(PoolerHead()), Batch(tokens=TOKENS), params), v, rtol=1e-5)
    got = logits(bert(Classes(3, pooler="tanh")), Batch(tokens=TOKENS), params)
    np.testing.assert_allclose(got, affine(params["head"], v), rtol=1e-5, atol=1e-6)
    tags = LinearHead(outputs=5, bias=True)
    assert logits(bert(tags), Batch(tokens=TOKENS)).shape == (2, LENGTH, 5)


@pytest.mark.bug("huggingface/transformers#9054", "T076")
@pytest.mark.bug("huggingface/transformers#11364", "T110")
def test_the_masked_head_is_a_dense_layer_a_norm_and_the_embedding():
    params = weights(bert(Masked()))
    states = logits(bert(NoHead()), Batch(tokens=TOKENS), params).astype(np.float64)
    x = affine(params["head"]["dense"], states)
    x = x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2  # the exact form, not the one by tanh
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    x = x * params["head"]["norm"]["gain"] + params["head"]["norm"]["bias"]
    want = x @ np.asarray(params["embedding"]["w"]).T + params["head"]["tied"]["b"]
    np.testing.assert_allclose(logits(bert(Masked()), Batch(tokens=TOKENS), params), want, rtol=1e-4, atol=1e-4)


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2


def normed(x: np.ndarray, params: Any) -> np.ndarray:
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    return x * np.asarray(params["gain"]) + np.asarray(params["bias"])


def test_an_embedding_of_a_width_of_its_own_is_normalised_there_and_projected():
    model = bert(NoHead(), embedding=Tokens(types=2, width=5, scale="sqrt_width"), mixer="none", feedforward="none")
    params = weights(model)
    assert params["position"]["table"].shape == (LENGTH, 5) and params["embedding_norm"]["gain"].shape == (5,)
    table, types = (np.asarray(params["embedding"][name], np.float64) for name in ("w", "types"))
    vectors = 5**0.5 * table[TOKENS] + types[0] + np.asarray(params["position"]["table"])[:LENGTH]
    want = affine(params["embedding_projection"], normed(vectors, params["embedding_norm"]))
    np.testing.assert_allclose(logits(model, Batch(tokens=TOKENS), params), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("width", [5, WIDTH])
def test_a_head_goes_to_the_width_of_the_table_that_it_shares(width: int):
    """Projected even where the two widths are equal: the field says whether, not the sizes."""
    more: dict[str, Any] = {"embedding": Tokens(width=width)}
    states = logits(bert(NoHead(), **more), Batch(tokens=TOKENS), weights(bert(Masked(), **more))).astype(np.float64)
    params = weights(bert(Masked(), **more))
    x = normed(gelu(affine(params["head"]["dense"], states)), params["head"]["norm"])
    table = np.asarray(params["embedding"]["w"])
    want = x @ table.T + np.asarray(params["head"]["tied"]["b"])
    np.testing.assert_allclose(logits(bert(Masked(), **more), Batch(tokens=TOKENS)), want, rtol=1e-4, atol=1e-4)

    tied = bert(Tied(scale="rsqrt_width"), **more)
    head = {"project": {"w": jnp.asarray(RANDOM.standard_normal((WIDTH, width)), jnp.float32)}}
    assert jax.tree.map(jnp.shape, weights(tied)["head"]) == jax.tree.map(jnp.shape, head)
    want = states @ np.asarray(head["project"]["w"]) @ table.T / width**0.5
    np.testing.assert_allclose(logits(tied, Batch(tokens=TOKENS), params | {"head": head}), want, rtol=1e-4, atol=1e-4)


def test_a_discriminators_two_classes_are_a_sigmoid():
    model = bert(Replaced())
    params = weights(model)
    states = logits(bert(NoHead()), Batch(tokens=TOKENS), params).astype(np.float64)
    score = affine(params["head"]["score"], gelu(affine(params["head"]["dense"], states)))[..., 0]
    got = logits(model, Batch(tokens=TOKENS))
    np.testing.assert_array_equal(got[..., 0], 0)
    np.testing.assert_allclose(got[..., 1], score, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scipy.special.softmax(got, -1)[..., 1], scipy.special.expit(score), rtol=1e-4)


# ---------------------------------------------------------------- training

MANY = RANDOM.integers(0, VOCAB, (4, LENGTH)).astype(np.int32)
SCORED = np.array([[1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1]], np.float32)
PAIRS = Batch(
    tokens=MANY,
    targets=MANY[:, ::-1],
    weights=SCORED,
    segments=np.ones_like(MANY),
    types=np.repeat([[0, 0, 0, 1, 1, 1]], 4, 0),
    labels=np.array([0, 1, 0, 1], np.int32),
)


def stepped(model: Model, batch: Batch, accumulation: int = 1) -> Any:
    optim = Optim(learning_rate=1.0, optimizer=SGD(), weight_decay=0.0, clip=None)
    config = Config(model=model, optim=optim, train=Train(batch_size=4, accumulation=accumulation, steps=10))
    state = initial_state(config, Decoder(model), weights(model))
    return jax.jit(make_train_step(Decoder(model), config))(state, batch, hyper(config, Decoder(model)))


@pytest.mark.bug("huggingface/transformers#34191", "T002")
def test_next_sentence_is_a_mean_over_rows_however_the_batch_is_cut():
    model = bert(Masked(next_sentence=True))
    after, metrics = stepped(model, PAIRS)
    cut, same = stepped(model, PAIRS, accumulation=2)
    np.testing.assert_allclose(metrics.loss, same.loss, rtol=1e-5)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), after.params, cut.params)

    with jax.disable_jit():
        outputs = Decoder(model).apply(weights(model), PAIRS, capture=("next_sentence",))
    (scores,) = outputs.captured["next_sentence"]["next_sentence"]
    each = scipy.special.logsumexp(scores, -1) - np.asarray(scores)[np.arange(4), PAIRS.labels]
    np.testing.assert_allclose(metrics.more["next_sentence_loss"], np.average(each, weights=SCORED.sum(1)), rtol=1e-5)
    right = np.argmax(scores, -1) == PAIRS.labels
    np.testing.assert_allclose(metrics.more["next_sentence_accuracy"], np.average(right, weights=SCORED.sum(1)))
    masked_alone, _ = stepped(replace(model, head=Masked()), replace(PAIRS, labels=None))
    assert not np.allclose(after.params["embedding"]["w"], masked_alone.params["embedding"]["w"], atol=1e-6)


def test_next_sentence_without_labels_is_refused_in_training_alone():
    model = bert(Masked(next_sentence=True))
    with pytest.raises(ConfigError, match=r"next_sentence=true learns from batch\.labels"):
        stepped(model, replace(PAIRS, labels=None))
    assert logits(model, Batch(tokens=TOKENS)).shape == (2, LENGTH, VOCAB)


def test_a_classifier_learns_from_one_target_a_row_and_rows_of_no_weight_do_not_count():
    model = bert(Classes(3))
    batch = Batch(MANY, jnp.array([[0], [2], [1], [0]]), jnp.array([[1.0], [1.0], [0.0], [0.0]]))
    config = Config(model=model)
    scores = logits(model, batch)[:, 0]
    with jax.disable_jit():
        sums = make_evaluation_step(Decoder(model), config)(weights(model), batch, Decoder(model).knobs())
    each = scipy.special.logsumexp(scores, -1) - scores[np.arange(4), batch.targets[:, 0]]
    np.testing.assert_allclose(sums.loss, each[:2].sum(), rtol=1e-5)
    assert sums.weight == 2
    first, other = (stepped(model, replace(batch, targets=jnp.array([[0], [2], [t], [t]])))[0].params for t in (0, 1))
    jax.tree.map(np.testing.assert_array_equal, first, other)


def test_dropout_is_on_the_vector_that_a_classifier_reads():
    """With the other sites off, what is dropped shows in the gradient of the head's matrix alone."""
    model = bert(Classes(3), dropout=0.5, dropout_sites=("head",))
    params = weights(model)

    def hidden(key: jax.Array | None) -> np.ndarray:
        with jax.disable_jit():
            return np.asarray(Decoder(model).apply(params, Batch(tokens=TOKENS), key=key, unembed=False).hidden)

    whole, dropped = hidden(None), hidden(jax.random.key(0))
    assert 0 < (dropped == 0).sum() < dropped.size
    np.testing.assert_allclose(dropped[dropped != 0], 2 * whole[dropped != 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: Classes(1), "outputs must be at least 2, got 1"),
        (lambda: presets.vit(8, 1, 2, patches=4, side=2, channels=1, head=Masked()), "head=masked needs the table"),
        (
            lambda: replace(bert(Masked()), norm=BatchNorm()),
            "head=masked normalises each token by itself, got norm=bat",
        ),
    ],
)
def test_heads_that_cannot_be_are_refused(change: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        change()


def test_a_model_that_writes_no_text_says_so():
    with pytest.raises(ConfigError, match="writes no text"):
        Decoder(bert(Masked())).prefill(weights(bert(Masked())), Batch(tokens=TOKENS), LENGTH)
