"""Layers: residuals, norms, feed-forwards, and what a token's vector depends on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from small import FLOAT32, TOKENS, VOCAB, decoder, logits, normal, off, parameters, quick

from txjax import probe
from txjax.batch import Batch
from txjax.lab.identities import identity, wrong
from txjax.ops import layer_norm, linear, rms_norm

D = 16
EPS = 1e-7
X, GAIN, BIAS = 3 * normal(2, 5, D) + 1, normal(D, seed=1), normal(D, seed=2)
NAMES = ("embedded", "residual", "mixer_output", "feedforward_output")


def captures(**changes: Any) -> Any:
    model = decoder(**changes)
    return quick(lambda p: model.apply(p, Batch(tokens=TOKENS), capture=NAMES).captured)(parameters(model))


def trunk_against_sum(placement: str) -> float:
    seen = captures(norm_placement=placement)
    streams, mixed, fed = (probe.captured(seen, name) for name in NAMES[1:])
    return off(streams[-1], seen["embedded"][0] + sum(mixed) + sum(fed))


@identity("C21", "x_L = x_0 + the sum of what sublayers add, pre-norm", 1e-5, FLOAT32)
def pre_norm_trunk() -> float:
    return trunk_against_sum("pre")


@wrong("E19", "the same post-norm, as in the original Transformer", 0.1, "each norm rescales the trunk")
def post_norm_trunk() -> float:
    return trunk_against_sum("post")


def jacobian_less_identity(placement: str) -> float:
    """Of a layer of one feed-forward, d y / d x against I + d f / d x, for one token."""
    model = decoder(norm_placement=placement, mixer="none", num_layers=1, position="none", head="linear")
    params, token = parameters(model), Batch(tokens=jnp.zeros((1, 1), jnp.int32))

    def outputs(x_D: jax.Array) -> tuple[jax.Array, jax.Array]:
        table_VD = params["embedding"]["w"].at[0].set(x_D)
        seen = model.apply({**params, "embedding": {"w": table_VD}}, token, capture=NAMES, unembed=False).captured
        return tuple(probe.captured(seen, name)[0][0, 0] for name in ("residual", "feedforward_output"))

    whole, f = quick(jax.jacrev(outputs))(normal(D, seed=3))
    return off(whole, jnp.eye(D) + f)


@identity("C21", "d y / d x = I + d f / d x, pre-norm", 1e-5, FLOAT32)
def pre_norm_jacobian() -> float:
    return jacobian_less_identity("pre")


@wrong("C21", "the same post-norm", 0.1, "the norm's own Jacobian multiplies it")
def post_norm_jacobian() -> float:
    return jacobian_less_identity("post")


@identity(
    "C22", "LayerNorm gives each token mean 0 and variance 1 before gain and bias", 1e-5, "float32, and eps = 1e-7"
)
def normed_moments() -> float:
    y = np.asarray(layer_norm(X, jnp.ones(D), jnp.zeros(D), eps=EPS), np.float64)
    return float(max(np.abs(y.mean(-1)).max(), np.abs(y.var(-1) - 1).max()))


@identity("C22", "it sees neither shift nor scale of a token, nor other tokens", 1e-5, "float32, and eps = 1e-7")
def norm_does_not_see() -> float:
    y = layer_norm(X, GAIN, BIAS, eps=EPS)
    alone = layer_norm(X[1:, 2:], GAIN, BIAS, eps=EPS)
    return max(off(layer_norm(7 * X + 3, GAIN, BIAS, eps=EPS), y), off(alone, y[1:, 2:]))


@identity(
    "C23", "RMSNorm is LayerNorm where the mean is 0, and does not see the scale", 1e-5, "float32, and eps = 1e-7"
)
def rms_without_mean() -> float:
    centred = X - X.mean(-1, keepdims=True)
    same = off(rms_norm(centred, GAIN, eps=EPS), layer_norm(centred, GAIN, None, eps=EPS))
    return max(same, off(rms_norm(7 * X, GAIN, eps=EPS), rms_norm(X, GAIN, eps=EPS)))


@wrong("C23", "RMSNorm does not see a shift", 0.1, "it takes no mean out")
def rms_sees_a_shift() -> float:
    return off(rms_norm(X + 3, GAIN, eps=EPS), rms_norm(X, GAIN, eps=EPS))


@identity("E3", "RMSNorm has a gain and no bias: two vectors of 4096 a layer of Llama, and one at the end")
def norms_of_llama() -> float:
    model = decoder(norm="rms", num_layers=2)
    shapes = jax.tree.leaves_with_path(model.shapes())
    count = sum(leaf.size for path, leaf in shapes if "norm" in jax.tree_util.keystr(path))
    return abs(count - (2 * 2 + 1) * D)


def feed_forward(x: jax.Array, w_in: jax.Array, w_out: jax.Array) -> jax.Array:
    return linear(jax.nn.relu(linear(x, w_in)), w_out)


@identity("C24", "FFN(P X) = P FFN(X), and a row alone gives its row", 1e-12, "float64, sums in another order")
def feed_forward_is_by_position() -> float:
    with jax.enable_x64(True):
        random = np.random.default_rng(0)
        x, w_in, w_out = (jnp.asarray(random.standard_normal(s)) for s in ((5, D), (D, 4 * D), (4 * D, D)))
        whole, order = feed_forward(x, w_in, w_out), random.permutation(5)
        rows = jnp.stack([feed_forward(row, w_in, w_out) for row in x])
        return max(off(feed_forward(x[order], w_in, w_out), whole[order]), off(rows, whole))


@identity(
    "C54", "FFN(x) = sum_i act(k_i x) v_i: keys are the columns of W_in, values the rows of W_out", 1e-12, "float64"
)
def feed_forward_is_a_memory() -> float:
    with jax.enable_x64(True):
        random = np.random.default_rng(0)
        x, w_in, w_out = (jnp.asarray(random.standard_normal(s)) for s in ((D,), (D, 4 * D), (4 * D, D)))
        memory = sum(jax.nn.relu(w_in[:, i] @ x) * w_out[i] for i in range(4 * D))
        return off(feed_forward(x, w_in, w_out), memory)


@wrong("C85", "a token has one vector, whatever stands before it", 0.01, "layers above the embedding read the context")
def vectors_are_fixed() -> float:
    model = decoder()
    other = TOKENS.at[0, 0].set((TOKENS[0, 0] + 1) % VOCAB)
    return off(logits(model, Batch(tokens=other))[:, -1], logits(model, Batch(tokens=TOKENS))[:, -1])


@identity("C46b", "a recurrent net has as many parameters for a text of any length, and so has a rotary Transformer")
def parameters_by_length() -> float:
    def count(length: int, **changes: Any) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(decoder(context=length, **changes).shapes()))

    return max(abs(count(64, **kind) - count(4096, **kind)) for kind in ({}, {"mixer": "lstm", "position": "none"}))
