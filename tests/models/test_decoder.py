"""The decoder: what it refuses, what can be seen of it, and what its options mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.errors import ScopeParamShapeError

from txjax.batch import Batch
from txjax.config import Attention, Dense, Layer, Model
from txjax.models import Decoder
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.feedforwards.none import NoFeedForward
from txjax.nn.mixers.none import NoMixer
from txjax.ops.positions import Alibi, Rope
from txjax.schema import ConfigError

MODEL = Model(width=16, num_layers=2, vocab_size=11, context=6, attention=Attention(num_heads=2))
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 6)), jnp.int32)


def weights(decoder: Decoder) -> Any:
    """Weights of a visible size, biases and gains among them."""
    random = np.random.default_rng(1)
    return jax.tree.map(lambda w: jnp.asarray(random.normal(0.3, 0.3, w.shape), jnp.float32), decoder.shapes())


def apply(model: Model, params: Any = None, **how: Any) -> Any:
    """Outputs over TOKENS, operation by operation: there is no program to compile."""
    decoder = Decoder(model)
    params = weights(decoder) if params is None else params
    with jax.disable_jit():
        return decoder.apply(params, Batch(tokens=TOKENS), **how)


# Refusals


@pytest.mark.bug("jax-ml/jax#4455", "jax-ml/jax#7595", "jax-ml/jax#2895", "jax-ml/jax#14193", "jax-ml/jax#3604")
def test_a_sequence_past_the_position_table_is_refused_before_anything_runs():
    decoder = Decoder(MODEL)
    long = Batch(tokens=jnp.zeros((1, 7), jnp.int32))
    with pytest.raises(ConfigError, match=r"a sequence of 7 tokens runs past model\.context=6"):
        jax.eval_shape(decoder.apply, decoder.shapes(), long)
    with pytest.raises(ConfigError, match=r"a cache of 7 tokens runs past model\.context=6"):
        decoder.prefill(decoder.shapes(), Batch(tokens=TOKENS), cache_len=7)
    free = Decoder(replace(MODEL, position=Rope()))
    assert jax.eval_shape(free.apply, free.shapes(), long).logits.shape == (1, 7, 11)


def test_a_prompt_that_does_not_fit_its_cache_is_refused():
    decoder = Decoder(MODEL)
    with pytest.raises(ConfigError, match="prompts of 6 tokens do not fit a cache of 5"):
        decoder.prefill(decoder.shapes(), Batch(tokens=TOKENS), cache_len=5)


def test_parameters_of_another_shape_are_refused_by_path():
    params = weights(Decoder(replace(MODEL, feedforward=Dense(hidden=24))))
    with pytest.raises(ScopeParamShapeError, match="layers/block_0/dense/in"):
        apply(MODEL, params)


# What is seen from outside


def test_captures_are_what_their_names_say():
    model = replace(MODEL, position=Alibi())
    names = ("embedded", "residual", "mixer_output", "feedforward_output", "attention_weights")
    params = weights(Decoder(model))
    seen = apply(model, capture=names).captured
    block = seen["layers"]["block_0"]
    np.testing.assert_allclose(seen["embedded"][0], params["embedding"]["w"][TOKENS], rtol=1e-6)
    # a pre-norm stream is the embedding and all that was added to it
    added = block["mixer_output"][0] + block["feedforward_output"][0]
    np.testing.assert_allclose(block["residual"][0][-1], seen["embedded"][0] + added.sum(0), atol=1e-5)
    shares = block["attention"]["attention_weights"][0]
    assert shares.shape == (2, 2, 2, 6, 6)  # layers, rows, heads, queries, keys
    np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-6)
    assert (np.triu(shares, 1) == 0).all()


def test_only_what_is_asked_for_is_captured():
    assert not apply(MODEL).captured
    assert [leaf.shape for leaf in jax.tree.leaves(apply(MODEL, capture=("residual",)).captured)] == [(2, 2, 6, 16)]


def test_hidden_states_alone_need_no_head():
    outputs = apply(MODEL, unembed=False)
    assert outputs.logits is None
    logits = Decoder(MODEL).unembed(weights(Decoder(MODEL)), outputs.hidden)
    np.testing.assert_allclose(logits, apply(MODEL).logits, atol=1e-5)


# Options


def test_the_output_of_layers_without_sublayers_is_the_normed_embedding():
    empty = replace(MODEL, mixer=NoMixer(), feedforward=NoFeedForward(), position=Rope())
    params = weights(Decoder(empty))
    x = np.asarray(params["embedding"]["w"])[TOKENS]
    centred = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    norm = params["final_norm"]
    np.testing.assert_allclose(apply(empty).hidden, centred * norm["gain"] + norm["bias"], atol=1e-5)
    assert set(params) == {"embedding", "final_norm"}


def test_residual_scales_what_a_sublayer_adds():
    names = ("embedded", "residual", "mixer_output", "feedforward_output")
    for residual, kept, share in (("on", 1.0, 1.0), ("off", 0.0, 1.0), (0.25, 1.0, 0.25)):
        model = replace(MODEL, residual=residual, num_layers=1, mixer=NoMixer(), position=Rope())
        seen = apply(model, capture=names).captured
        block = {name: leaf[0][0] for name, leaf in seen["layers"]["block_0"].items() if name in names}
        want = kept * seen["embedded"][0] + share * block["feedforward_output"]
        np.testing.assert_allclose(block["residual"], want, atol=1e-6)


def test_in_the_parallel_topology_both_sublayers_read_the_same_stream():
    """Where the mixer writes nothing, the two topologies agree; elsewhere they do not."""
    sequential, parallel = (replace(MODEL, topology=t, num_layers=1) for t in ("sequential", "parallel"))
    assert not np.allclose(apply(sequential).logits, apply(parallel).logits, atol=1e-3)
    params = weights(Decoder(sequential))
    mixer = params["layers"]["block_0"]["attention"]
    mixer["out"] = jax.tree.map(jnp.zeros_like, mixer["out"])
    np.testing.assert_array_equal(apply(sequential, params).logits, apply(parallel, params).logits)


def test_embeddings_are_scaled_by_the_square_root_of_the_width_on_request():
    models = (replace(MODEL, position=Rope(), embedding=Tokens(scale=scale)) for scale in ("none", "sqrt_width"))
    plain, scaled = (apply(model, capture=("embedded",)).captured["embedded"][0] for model in models)
    np.testing.assert_allclose(scaled, 4 * plain, rtol=1e-6)


def test_a_softcap_bounds_the_logits():
    plain, capped = (apply(replace(MODEL, logit_softcap=cap)).logits for cap in (None, 0.5))
    np.testing.assert_allclose(capped, 0.5 * np.tanh(plain / 0.5), atol=1e-5)


@pytest.mark.bug("jax-ml/jax#10413", "jax-ml/jax#12008", "jax-ml/jax#14022", "huggingface/transformers#15754")
def test_the_precision_of_products_is_that_of_the_config_forward_and_backward():
    def precisions(word: Any) -> tuple[int, int]:
        """How many products there are, and of how many the highest precision is asked."""
        decoder = Decoder(replace(MODEL, matmul_precision=word))

        def loss(params: Any) -> jax.Array:
            return decoder.apply(params, Batch(tokens=TOKENS)).logits.sum()

        text = str(jax.make_jaxpr(jax.grad(loss))(decoder.shapes()))
        return text.count("dot_general["), text.count("precision=HIGHEST") + text.count("precision=(Precision.HIGHEST")

    products, highest = precisions("highest")
    assert products == highest > 10
    assert precisions("default")[1] == 0


def test_logits_are_float32_in_bfloat16():
    narrow = replace(MODEL, dtype="bfloat16")
    outputs = apply(narrow)
    assert (outputs.hidden.dtype, outputs.logits.dtype) == (jnp.bfloat16, jnp.float32)
    assert {leaf.dtype for leaf in jax.tree.leaves(Decoder(narrow).shapes())} == {jnp.dtype("float32")}


def test_layers_before_the_pattern_come_first():
    """Two layers say the same as a period of one and as a first layer and a period."""
    params = weights(Decoder(MODEL))
    block = params["layers"]["block_0"]
    moved = {
        **params,
        "first_0": jax.tree.map(lambda leaf: leaf[0], block),
        "layers": {"block_0": jax.tree.map(lambda leaf: leaf[1:], block)},
    }
    apart = apply(replace(MODEL, first_layers=(Layer(),)), moved)
    np.testing.assert_allclose(apart.logits, apply(MODEL, params).logits, atol=1e-5)


@pytest.mark.parametrize("sharing", ["none", "periods"])
def test_the_steps_of_a_text_alone_take_two_layers_a_round_and_have_the_logits_of_the_full_pass(sharing: Any):
    """Of three layers: the last round has one. Within 2e-5: the same sums, by other programs."""
    model = replace(MODEL, num_layers=3, sharing=sharing)
    decoder = Decoder(model)
    params = weights(decoder)
    with jax.disable_jit():
        _, cache = decoder.prefill(params, Batch(tokens=TOKENS[:1, :3]), cache_len=6)
    step, want = jax.jit(decoder.step), apply(model, params).logits
    for t in (3, 4, 5):
        logits, cache = step(params, TOKENS[:1, t], cache)
        np.testing.assert_allclose(logits, want[:1, t], rtol=2e-5, atol=2e-5)
    for rows, periods in ((1, 2), (2, 1)):
        held = jax.eval_shape(lambda rows=rows: decoder.empty_cache(rows, 6))
        program = str(jax.make_jaxpr(decoder.step)(params, TOKENS[:rows, 3], held))
        assert f"unroll={periods}" in program and f"unroll={3 - periods}" not in program
