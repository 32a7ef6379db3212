"""What a pass over tokens keeps, whatever the variant. Passes run operation by operation: see harness.run."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import TOKENS, TOLERANCE, assert_close, logits, parameters, run
from variants import LENGTH, VARIANTS, VOCAB, Variant

from txjax.batch import Batch
from txjax.config import Model
from txjax.models.decoder import Decoder
from txjax.ops.positions import NoPosition

pytestmark = pytest.mark.parametrize("variant", [v for v in VARIANTS if v.computes_anew], ids=str, scope="module")


def mixes(model: Model) -> bool:
    """Whether any layer moves information between tokens."""
    return any(model.mixer_of(layer).kind != "none" for layer in model.layers)


def skip_unless(condition: bool, why: str) -> None:
    if not condition:
        pytest.skip(why)


@pytest.mark.bug("google/flax#5591")
def test_no_position_sees_a_later_one(variant: Variant):
    """d logits_i / d embedding_j is exactly 0 for j > i, and not for j = i - 1."""
    model = variant.model
    decoder, params = Decoder(model), parameters(model)
    towards_TV = np.random.default_rng(2).standard_normal((LENGTH, VOCAB)).astype(np.float32)

    def outputs_T(table_VD: jax.Array) -> jax.Array:
        changed = {**params, "embedding": {"w": table_VD}}
        hidden = decoder.apply(changed, Batch(tokens=TOKENS[:1]), unembed=False).hidden
        return (decoder.unembed(params, hidden)[0] * towards_TV).sum(-1)  # a tied head keeps the first table

    with jax.disable_jit():
        _, pull = jax.vjp(outputs_T, params["embedding"]["w"])
        by_token_TVD = np.asarray(jax.vmap(pull)(jnp.eye(LENGTH))[0])
    reach_TT = np.abs(by_token_TVD[:, TOKENS[0]]).max(-1)
    later = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    assert np.isfinite(reach_TT).all()
    assert (reach_TT.diagonal(-1) > 0).all() == mixes(model)
    assert (reach_TT[later] > 0).any() == (mixes(model) and not model.causal)


@pytest.mark.bug("google/flax#5591", "T007")
@pytest.mark.bug("huggingface/transformers#3021", "T013")
@pytest.mark.bug("ml-explore/mlx-lm#1491", "T106", "T143")
def test_cached_decoding_has_the_logits_of_the_full_pass(variant: Variant):
    """Prompts of 3 and 5 tokens in one batch, then two tokens more in each row."""
    model = variant.model
    decoder, params = Decoder(model), parameters(model)
    skip_unless(model.causal, "later tokens are seen")
    rows, lengths = jnp.arange(2), jnp.array([3, 5])
    real = jnp.arange(5) < lengths[:, None]
    prompts = Batch(tokens=jnp.where(real, TOKENS[:, :5], 0), segments=real.astype(jnp.int32))
    with jax.disable_jit():
        last, cache = decoder.prefill(params, prompts, cache_len=LENGTH)
        got = [last]
        for ahead in range(2):
            last, cache = decoder.step(params, TOKENS[rows, lengths + ahead], cache)
            got.append(last)
    want = [logits(model)[rows, lengths - 1 + ahead] for ahead in range(3)]
    assert_close(got, want, TOLERANCE[model.dtype])
    assert {leaf.dtype for leaf in jax.tree.leaves(cache.states)} <= {jnp.dtype(model.dtype)}


def test_without_mask_and_positions_permuted_tokens_give_permuted_logits(variant: Variant):
    model = replace(variant.model, position=NoPosition(), causal=False)
    skip_unless(not any(getattr(model.mixer_of(x), "window", None) for x in model.layers), "a window is about order")
    assert off_by_a_permutation(model) <= TOLERANCE[model.dtype]
    if len(variant.changes) == 0:  # the causal mask alone carries order
        assert off_by_a_permutation(replace(model, causal=True)) > 0.1


def off_by_a_permutation(model: Model) -> float:
    order = np.random.default_rng(3).permutation(LENGTH)
    straight, permuted = np.split(run(model, Batch(tokens=jnp.concatenate([TOKENS, TOKENS[:, order]]))), 2)
    return float(np.abs(permuted - straight[:, order]).max() / np.abs(straight).max())


class Everything(tuple[str, ...]):
    """A capture that asks for whatever there is."""

    def __contains__(self, name: object) -> bool:
        return True


def test_capturing_changes_no_value(variant: Variant):
    model = variant.model
    with jax.disable_jit():
        outputs = Decoder(model).apply(parameters(model), Batch(tokens=TOKENS), capture=Everything())
    assert len(jax.tree.leaves(outputs.captured)) >= 2
    held = model.attention.implementation == "plain"  # others hold no weights, and make way when these are asked for
    assert_close(outputs.logits, logits(model), 0.0 if held else TOLERANCE[model.dtype])


def test_bfloat16_is_near_float32(variant: Variant):
    narrow, wide = (logits(replace(variant.model, dtype=dtype)) for dtype in ("bfloat16", "float32"))
    assert_close(narrow, wide, TOLERANCE["bfloat16"])
    assert np.abs(narrow - wide).max() > 1e-4  # so it is another type
