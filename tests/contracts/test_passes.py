"""What a pass over tokens keeps, whatever the variant. Passes run operation by operation: see harness.run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import ROWS, TOKENS, TOLERANCE, assert_close, logits, parameters, plain, reads_each, run
from variants import LENGTH, VARIANTS, VOCAB, Variant

from txjax.batch import Batch
from txjax.config import Model
from txjax.ops.positions import NoPosition

pytestmark = pytest.mark.parametrize("variant", [v for v in VARIANTS if v.computes_anew], ids=str, scope="module")


def mixes(model: Model) -> bool:
    """Whether any layer moves information between tokens."""
    return any(model.mixer_of(layer).kind != "none" for layer in model.layers)


def skip_unless(condition: bool, why: str) -> None:
    if not condition:
        pytest.skip(why)


@pytest.mark.bug("google/flax#5591")
@pytest.mark.claim("C04")
def test_no_position_sees_a_later_one(variant: Variant):
    """d logits_i / d embedding_j is exactly 0 for j > i, and not for j = i - 1: row i of the batch asks about i."""
    model, params = variant.model, parameters(variant.model)
    skip_unless(reads_each(model), "its head reads one vector a row")
    places = jnp.arange(LENGTH)
    towards_TV = np.random.default_rng(2).standard_normal((LENGTH, VOCAB)).astype(np.float32)

    def outputs(table_VD: jax.Array) -> jax.Array:
        changed = {**params, "embedding": {"w": table_VD}}
        hidden = plain(model).apply(changed, Batch(tokens=TOKENS), unembed=False).hidden[places, places]
        logits = plain(model).unembed(params, hidden)  # a tied head keeps the first table
        return (logits * towards_TV[:, : logits.shape[-1]]).sum()

    with jax.disable_jit():
        by_token_VD = np.asarray(jax.grad(outputs)(params["embedding"]["w"]))
    reach_TT = np.abs(by_token_VD[TOKENS]).max(-1)
    later = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    assert np.isfinite(reach_TT).all()
    assert (reach_TT.diagonal(-1) > 0).all() == mixes(model)
    assert (reach_TT[later] > 0).any() == (mixes(model) and not model.causal)


@pytest.mark.bug("google/flax#5591", "T007")
@pytest.mark.bug("huggingface/transformers#3021", "T013")
@pytest.mark.bug("ml-explore/mlx-lm#1491", "T106", "T143")
@pytest.mark.claim("C15")
def test_cached_decoding_has_the_logits_of_the_full_pass(variant: Variant):
    """Prompts of 3 and 5 tokens in one batch, then two tokens more in each row."""
    model, params = variant.model, parameters(variant.model)
    skip_unless(model.generates, "it writes no text")
    rows, lengths = jnp.arange(len(TOKENS)), jnp.resize(jnp.array([3, 5]), len(TOKENS))
    real = jnp.arange(5) < lengths[:, None]
    prompts = Batch(tokens=jnp.where(real, TOKENS[:, :5], 0), segments=real.astype(jnp.int32))
    with jax.disable_jit():
        last, cache = plain(model).prefill(params, prompts, cache_len=LENGTH)
        got = [last]
        for ahead in range(2):
            last, cache = plain(model).step(params, TOKENS[rows, lengths + ahead], cache)
            got.append(last)
    want = [logits(model)[rows, lengths - 1 + ahead] for ahead in range(3)]
    assert_close(got, want, TOLERANCE[model.dtype])
    empty = plain(model).empty_cache(len(TOKENS), LENGTH)
    assert jax.tree.map(lambda leaf: leaf.dtype, cache.states) == jax.tree.map(lambda leaf: leaf.dtype, empty.states)


@pytest.mark.claim("C05", "E12")
def test_without_mask_and_positions_permuted_tokens_give_permuted_logits(variant: Variant):
    mixers = [variant.model.mixer_of(layer) for layer in variant.model.layers]
    skip_unless(not any(mixer.ordered for mixer in mixers), "its mixer is about order")
    skip_unless(reads_each(variant.model), "its head reads one vector a row")
    model = replace(variant.model, position=NoPosition(), causal=False)
    assert off_by_a_permutation(model) <= TOLERANCE[model.dtype]
    if len(variant.changes) == 0:  # the causal mask alone carries order
        assert off_by_a_permutation(replace(model, causal=True)) > 0.1


@cache
def off_by_a_permutation(model: Model) -> float:
    order = np.random.default_rng(3).permutation(LENGTH)
    half = TOKENS[: len(TOKENS) // 2]
    both = jnp.concatenate([half, half[:, order]])
    straight, permuted = np.split(run(model, Batch(tokens=both)), 2)
    return float(np.abs(permuted - straight[:, order]).max() / np.abs(straight).max())


class Everything(tuple[str, ...]):
    """A capture that asks for whatever there is."""

    def __contains__(self, name: object) -> bool:
        return True


def test_capturing_changes_no_value(variant: Variant):
    model = variant.model
    with jax.disable_jit():
        outputs = plain(model).apply(parameters(model), ROWS, capture=Everything())
    assert len(jax.tree.leaves(outputs.captured)) >= 2
    held = model.attention.implementation == "plain"  # others hold no weights, and make way when these are asked for
    assert_close(outputs.logits, logits(model), 0.0 if held else TOLERANCE[model.dtype])


def test_bfloat16_is_near_float32(variant: Variant):
    """Over all logits: bfloat16 rounds by up to 0.4 %, and some ten roundings in a row do not cancel."""
    model = variant.model
    narrow, wide = (logits(replace(model, dtype=dtype)) for dtype in ("bfloat16", "float32"))
    routed = any(model.feedforward_of(layer).kind == "mixture" for layer in model.layers)
    limit = 0.2 if routed else 0.05  # a few tokens near a tie go to another expert: tests/nn/test_mixture.py
    assert 1e-4 < np.linalg.norm(narrow - wide) / np.linalg.norm(wide) < limit
