"""What a pass over tokens must keep, for every variant. The passes run operation by operation: see harness.logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import TOKENS, TOLERANCE, assert_close, logits, parameters, run
from variants import LENGTH, VARIANTS, VOCAB, Variant, put

from txjax.batch import Batch
from txjax.config import Attention, Model
from txjax.models.decoder import Decoder
from txjax.ops.positions import NoPosition
from txjax.schema import ConfigError, field_types

PASSES = [v for v in VARIANTS if v.computes_anew]
pytestmark = pytest.mark.parametrize("variant", PASSES, ids=str, scope="module")


def mixers(model: Model) -> list[Any]:
    return [model.mixer_of(layer) for layer in model.layers]


def with_mixers(model: Model, **fields: Any) -> Model:
    """The model with fields of its mixers changed, where they have them."""

    def change(mixer: Any) -> Any:
        known = {k: v for k, v in fields.items() if mixer is not None and k in field_types(type(mixer))}
        return replace(mixer, **known) if known else mixer

    def changed(layers: Any) -> Any:
        return tuple(replace(layer, mixer=change(layer.mixer)) for layer in layers)

    return replace(
        model, mixer=change(model.mixer), pattern=changed(model.pattern), first_layers=changed(model.first_layers)
    )


def needs(variant: Variant, condition: bool, why: str) -> None:
    if not condition:
        pytest.skip(f"{variant} {why}")


@pytest.mark.bug("google/flax#5591")
def test_no_position_sees_a_later_one(variant: Variant):
    """d logits_i / d embedding_j: exactly 0 for j > i, and not all 0 before i."""
    model = variant.model
    decoder, params = Decoder(model), parameters(model)
    towards_TV = np.random.default_rng(2).standard_normal((LENGTH, VOCAB)).astype(np.float32)

    def outputs_T(table_VD: jax.Array) -> jax.Array:
        changed = {**params, "embedding": {"w": table_VD}}
        hidden = decoder.apply(changed, Batch(tokens=TOKENS[:1]), unembed=False).hidden
        return (decoder.unembed(params, hidden)[0] * towards_TV).sum(-1)  # a tied head keeps the first table

    with jax.disable_jit():
        _, pull = jax.vjp(outputs_T, params["embedding"]["w"])
        by_row_TVD = np.asarray(jax.vmap(pull)(jnp.eye(LENGTH))[0])
    reach_TT = np.abs(by_row_TVD[:, TOKENS[0]]).max(-1)
    assert np.isfinite(reach_TT).all()
    later = np.triu(np.ones((LENGTH, LENGTH), bool), 1)
    assert (reach_TT[later] == 0).all() or not model.causal
    mixes = any(mixer.kind != "none" for mixer in mixers(model))
    assert (reach_TT.diagonal(-1) > 0).all() == mixes  # the token before is seen, unless nothing mixes tokens
    assert (reach_TT[later] > 0).any() == (mixes and not model.causal)


def test_a_prefix_has_the_logits_of_its_part_of_the_whole(variant: Variant):
    needs(variant, variant.model.causal, "sees later tokens")
    assert_close(logits(variant.model, 5), logits(variant.model)[:, :5], TOLERANCE[variant.model.dtype])


@pytest.mark.bug("google/flax#5591", "T007")
@pytest.mark.bug("huggingface/transformers#3021", "T013")
@pytest.mark.bug("ml-explore/mlx-lm#1491", "T106", "T143")
def test_cached_decoding_has_the_logits_of_the_full_pass(variant: Variant):
    """Prompts of 3 and 5 tokens in one batch, then two tokens more in each row."""
    model = variant.model
    decoder, params = Decoder(model), parameters(model)
    needs(variant, model.causal, "sees later tokens")
    lengths = np.array([3, 5])
    real = np.arange(5) < lengths[:, None]
    prompts = Batch(tokens=np.where(real, TOKENS[:, :5], 0), segments=real.astype(np.int32))
    with jax.disable_jit():
        last, cache = decoder.prefill(params, prompts, cache_len=LENGTH)
        got = [last]
        for ahead in range(2):
            last, cache = decoder.step(params, TOKENS[np.arange(2), lengths + ahead], cache)
            got.append(last)
    want = [logits(model)[np.arange(2), lengths - 1 + ahead] for ahead in range(3)]
    assert_close(got, want, TOLERANCE[model.dtype])
    assert {leaf.dtype for leaf in jax.tree.leaves(cache.states)} <= {jnp.dtype(model.dtype)}


@pytest.mark.bug("huggingface/transformers#46634")
def test_documents_packed_into_a_row_do_not_see_each_other(variant: Variant):
    parts = [(0, 3), (1, 5)]  # row and length
    packed = Batch(
        tokens=np.concatenate([TOKENS[row, :n] for row, n in parts])[None],
        segments=np.repeat([1, 2], [n for _, n in parts])[None],
        positions=np.concatenate([np.arange(n) for _, n in parts])[None],
    )
    alone = np.concatenate([logits(variant.model, n)[row] for row, n in parts])
    assert_close(run(variant.model, packed)[0], alone, TOLERANCE[variant.model.dtype])


def test_order_enters_by_positions_and_by_the_causal_mask_alone(variant: Variant):
    """Without both, permuted tokens give permuted logits; with the mask alone they do not."""
    model = replace(variant.model, position=NoPosition())
    windows = [getattr(mixer, "window", None) for mixer in mixers(model)]
    needs(variant, windows == [None] * len(windows), "has a window, which is about order")
    order = np.random.default_rng(3).permutation(LENGTH)

    def off(model: Model) -> float:
        permuted = run(model, Batch(tokens=TOKENS[:, order]))
        return float(np.abs(permuted - logits(model)[:, order]).max() / np.abs(logits(model)).max())

    assert off(replace(model, causal=False)) <= TOLERANCE[model.dtype]
    if any(mixer.kind != "none" for mixer in mixers(model)):
        assert off(replace(model, causal=True)) > 0.1  # far above rounding, in bfloat16 too


class Everything(tuple[str, ...]):
    """A capture that asks for whatever there is."""

    def __contains__(self, name: object) -> bool:
        return True


def test_capturing_changes_no_value(variant: Variant):
    model = variant.model
    with jax.disable_jit():
        outputs = Decoder(model).apply(parameters(model), Batch(tokens=TOKENS), capture=Everything())
    assert len(jax.tree.leaves(outputs.captured)) >= 2
    exact = model.attention.implementation == "plain"  # weights can only be seen where they are held
    assert_close(outputs.logits, logits(model), 0.0 if exact else TOLERANCE[model.dtype])


def test_bfloat16_is_near_float32(variant: Variant):
    """bfloat16 keeps 8 bits: 0.4 % an operation, and some ten operations in a row do not cancel."""
    narrow, wide = (logits(replace(variant.model, dtype=dtype)) for dtype in ("bfloat16", "float32"))
    assert_close(narrow, wide, TOLERANCE["bfloat16"])
    assert np.abs(narrow - wide).max() > 1e-4  # and it is another type


@pytest.mark.bug("apple/axlearn#842")
def test_grouped_heads_are_repeated_heads(variant: Variant):
    """Neighbouring query heads share a key head: with N heads in K groups, head n reads group n K // N."""
    heads = variant.model.attention.num_heads
    grouped = put(variant.model, "attention.num_kv_heads", heads // 2)
    single = put(variant.model, "attention.num_kv_heads", None)
    axes = Decoder(grouped).axes()

    def repeat(leaf: jax.Array, names: tuple[str, ...]) -> jax.Array:
        return jnp.repeat(leaf, 2, names.index("kv_heads")) if "kv_heads" in names else leaf

    repeated = jax.tree.map(repeat, parameters(grouped), axes)
    assert_close(run(single, Batch(tokens=TOKENS), repeated), logits(grouped), TOLERANCE[variant.model.dtype])


def test_a_window_of_the_whole_length_is_no_window(variant: Variant):
    wide, none = with_mixers(variant.model, window=LENGTH), with_mixers(variant.model, window=None)
    assert_close(logits(wide), logits(none), TOLERANCE[variant.model.dtype])


@pytest.mark.bug("jax-ml/jax#28974")
def test_every_implementation_of_attention_is_the_plain_one(variant: Variant):
    plain = put(variant.model, "attention.implementation", "plain")
    for name in get_args(field_types(Attention)["implementation"]):
        model = put(put(plain, "attention.implementation", name), "attention.block_size", 3)
        try:
            got = logits(model)
        except ConfigError as refusal:
            assert "attention.implementation" in str(refusal)
            continue
        assert_close(got, logits(plain), TOLERANCE[plain.dtype])
