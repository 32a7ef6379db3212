"""The minimal implementations of the tutorials that this project began from, as NumPy, against txjax.

The tutorials' recurrent cell is in test_recurrence.py.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import attend, layer_norm, quick, softmax

from txjax.batch import Batch
from txjax.config import Attention, Model
from txjax.models import Decoder
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.initialisations import FanIn
from txjax.ops import Causal, attention, linear, sinusoidal_code
from txjax.ops.positions import NoPosition, Sinusoidal

LENGTH, WIDTH, HEADS = 5, 8, 2


def heads(x: Any) -> jax.Array:
    """(L, d) as one row with one head."""
    return jnp.asarray(x, jnp.float32)[None, None]


# The worked example "I love AI": three words, d = 4, and Q = K = V = X


WORDS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], np.float64)


@pytest.mark.claim("C25", "E1")
def test_the_worked_example_has_its_published_weights_and_outputs_at_full_precision():
    out, weights = attention(*[heads(WORDS)] * 3, scale=4**-0.5)
    e = math.exp
    rows = np.array([[e(1), e(0), e(1)], [e(0), e(4), e(2)], [e(1), e(2), e(2)]])
    rows /= rows.sum(1, keepdims=True)
    np.testing.assert_allclose(weights[0, 0], rows, rtol=1e-6)
    np.testing.assert_allclose(out[0, 0], rows @ WORDS, rtol=1e-6)
    # the digits; two of those that are printed in the tutorial are rounded wrongly: .156 for .155, .734 for .733
    printed = [[0.42232, 0.15536, 0.42232], [0.01588, 0.86681, 0.11731], [0.15536, 0.42232, 0.42232]]
    np.testing.assert_allclose(weights[0, 0], printed, atol=5e-6)
    first_two = [[0.84464, 0.73304], [0.13319, 1.85094], [0.57768, 1.26696]]
    np.testing.assert_allclose(out[0, 0], np.tile(first_two, 2), atol=6e-6)


@pytest.mark.claim("C26")
def test_orthogonal_words_score_zero_and_share_the_weight():
    words = heads([[1, 0, 1], [0, 2, 0]])
    _, weights = attention(words[:, :, :1], words[:, :, 1:], words[:, :, 1:], scale=3**-0.5)
    assert weights[0, 0, 0, 0] == 1.0  # one key, whatever its score
    _, weights = attention(words, words, words, scale=3**-0.5)
    np.testing.assert_allclose(weights[0, 0], softmax([[2 / 3**0.5, 0], [0, 4 / 3**0.5]]), rtol=1e-6)


# Self-attention of one head


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(causal: bool):
    random = np.random.default_rng(0)
    x, *matrices = (random.standard_normal(shape) / 8**0.5 for shape in [(4, 8), (8, 8), (8, 8), (8, 8)])
    q, k, v = (x @ w for w in matrices)
    scores = q @ k.T / k.shape[-1] ** 0.5
    if causal:
        scores[np.triu_indices(4, 1)] = -np.inf
    weights = softmax(scores)

    ours_q, ours_k, ours_v = (heads(linear(jnp.asarray(x), jnp.asarray(w))) for w in matrices)
    out, ours = attention(ours_q, ours_k, ours_v, scale=8**-0.5, mask=Causal() if causal else None)
    np.testing.assert_allclose(ours[0, 0], weights, atol=1e-6)
    np.testing.assert_allclose(out[0, 0], weights @ v, atol=1e-6)
    assert not causal or (np.asarray(ours[0, 0])[np.triu_indices(4, 1)] == 0).all()


@pytest.mark.claim("E8")
def test_projections_start_small_enough_for_scores_of_variance_one():
    # the tutorial draws them from N(0, 1): scores of width 8 then have a standard deviation of 8, not 1
    decoder = Decoder(Model(width=64, num_layers=2, vocab_size=4, context=4, init=FanIn()))
    layer = quick(decoder.init)(jax.random.key(0))["layers"]["block_0"]["attention"]
    x = np.random.default_rng(0).standard_normal((200, 64))
    q, k = (np.einsum("td,ldnh->lnth", x, layer[name]["w"]) for name in ("query", "key"))
    scores = np.einsum("lnth,lnsh->lnts", q, k) * float(decoder.knobs().scale)
    assert 0.8 < scores.std() < 1.2


# Sinusoidal positions


def code(position: int, width: int) -> np.ndarray:
    v = np.zeros(width)
    for k in range(0, width, 2):
        v[k] = math.sin(position / 10000 ** (k / width))
        v[k + 1] = math.cos(position / 10000 ** (k / width))
    return v


@pytest.mark.claim("C09")
def test_sinusoidal_code():
    ours = sinusoidal_code(jnp.arange(100), 64, base=10_000.0, pairs="interleaved")
    # an angle of up to 100 in float32
    np.testing.assert_allclose(ours, np.stack([code(i, 64) for i in range(100)]), atol=1e-5)


# Blocks


def layer_weights(random: np.random.Generator, hidden: int) -> dict[str, np.ndarray]:
    """One block's matrices, input first, and vectors, as the tutorials hold them."""
    d = WIDTH
    shapes = {name: (d, d) for name in ("Wq", "Wk", "Wv", "Wo")} | {"W1": (d, hidden), "W2": (hidden, d)}
    shapes |= {name: (d,) for name in ("bq", "bk", "bv", "bo", "b2", "gain1", "bias1", "gain2", "bias2")}
    return {name: random.standard_normal(shape) / 2 for name, shape in {**shapes, "b1": (hidden,)}.items()}


def multi_head_attention(x: np.ndarray, w: dict[str, np.ndarray], causal: bool) -> np.ndarray:
    length, d = x.shape
    q, k, v = ((x @ w["W" + n] + w["b" + n]).reshape(1, length, HEADS, d // HEADS).transpose(0, 2, 1, 3) for n in "qkv")
    out, _ = attend(q, k, v, scale=(d // HEADS) ** -0.5, visible=np.tri(length, dtype=bool) if causal else True)
    return out[0].transpose(1, 0, 2).reshape(length, d) @ w["Wo"] + w["bo"]


def gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def pre_ln_block(x: np.ndarray, w: dict[str, np.ndarray], causal: bool) -> np.ndarray:
    x = x + multi_head_attention(layer_norm(x, w["gain1"], w["bias1"]), w, causal)
    return x + gelu(layer_norm(x, w["gain2"], w["bias2"]) @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]


def post_ln_block(x: np.ndarray, w: dict[str, np.ndarray], causal: bool) -> np.ndarray:
    x = layer_norm(x + multi_head_attention(x, w, causal), w["gain1"], w["bias1"])
    return layer_norm(x + relu(x @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"], w["gain2"], w["bias2"])


def parameters(layers: list[dict[str, np.ndarray]]) -> Any:
    """The layers' weights as txjax's tree, stacked."""

    def tree(w: dict[str, np.ndarray]) -> Any:
        split = (HEADS, WIDTH // HEADS)
        attend = {
            name: {"w": w["W" + name[0]].reshape(WIDTH, *split), "b": w["b" + name[0]].reshape(split)}
            for name in ("query", "key", "value")
        }
        return {
            "attention": {**attend, "out": {"w": w["Wo"].reshape(*split, WIDTH), "b": w["bo"]}},
            "dense": {"in": {"w": w["W1"], "b": w["b1"]}, "out": {"w": w["W2"], "b": w["b2"]}},
            "mixer_norm": {"gain": w["gain1"], "bias": w["bias1"]},
            "feedforward_norm": {"gain": w["gain2"], "bias": w["bias2"]},
        }

    return {"block_0": jax.tree.map(lambda *xs: jnp.asarray(np.stack(xs), jnp.float32), *map(tree, layers))}


def decoder(hidden: int, **model: Any) -> Decoder:
    sizes = {"width": WIDTH, "num_layers": 2, "vocab_size": LENGTH, "context": LENGTH}
    feedforward = Dense(hidden=hidden, activation=model.pop("activation"))
    return Decoder(Model(**sizes, attention=Attention(num_heads=HEADS), feedforward=feedforward, **model))


@pytest.mark.parametrize("causal", [False, True])
def test_a_model_of_pre_ln_blocks(causal: bool):
    """Embedding + PE, two blocks with a GELU of 4 d, a final norm, a head."""
    random = np.random.default_rng(1)
    layers = [layer_weights(random, 4 * WIDTH) for _ in range(2)]
    embedding, head, gain, bias = (random.standard_normal(s) for s in [(LENGTH, WIDTH), (WIDTH, LENGTH), WIDTH, WIDTH])
    x = embedding + np.stack([code(i, WIDTH) for i in range(LENGTH)])
    for w in layers:
        x = pre_ln_block(x, w, causal)
    logits = layer_norm(x, gain, bias) @ head

    params = {"embedding": {"w": embedding}, "final_norm": {"gain": gain, "bias": bias}, "head": {"w": head}}
    params = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), params) | {"layers": parameters(layers)}
    model = decoder(4 * WIDTH, activation="gelu", causal=causal, position=Sinusoidal(), head="linear")
    ours = quick(lambda params: model.apply(params, Batch(tokens=tokens())).logits)(params)
    np.testing.assert_allclose(ours[0], logits, atol=1e-5 * np.abs(logits).max())


def test_post_ln_blocks_of_twenty_lines():
    random = np.random.default_rng(2)
    layers = [layer_weights(random, 2 * WIDTH) for _ in range(2)]
    x = embedding = random.standard_normal((LENGTH, WIDTH))
    for w in layers:
        x = post_ln_block(x, w, causal=False)

    params = {"embedding": {"w": jnp.asarray(embedding, jnp.float32)}, "layers": parameters(layers)}
    model = decoder(2 * WIDTH, activation="relu", norm_placement="post", causal=False, position=NoPosition())
    ours = quick(lambda params: model.apply(params, Batch(tokens=tokens()), unembed=False).hidden)(params)
    np.testing.assert_allclose(ours[0], x, atol=1e-5 * np.abs(x).max())


def tokens() -> jax.Array:
    """Every token once, so that the embedding is the input."""
    return jnp.arange(LENGTH)[None]
