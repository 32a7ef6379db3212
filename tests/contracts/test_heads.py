"""What mixers and the heads of attention keep, for every variant of attention, positions, mixers and patterns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import ROWS, TOKENS, TOLERANCE, assert_close, decoder, logits, parameters, reads_each, run
from variants import LENGTH, VARIANTS, Variant, put

from txjax.batch import Batch
from txjax.config import Attention, Model
from txjax.schema import ConfigError, field_types

ABOUT_MIXERS = {"attention", "causal", "dtype", "first_layers", "mixer", "pattern", "position"}


def is_about_mixers(variant: Variant) -> bool:
    fields = {path.split(".")[0] for path, _ in variant.changes}
    return variant.computes_anew and (not fields or bool(fields & ABOUT_MIXERS))


def has_heads(variant: Variant) -> bool:
    names = jax.tree.leaves(decoder(variant.model).axes())
    return "heads" in names


ALL = [variant for variant in VARIANTS if is_about_mixers(variant)]
every_variant = pytest.mark.parametrize("variant", ALL, ids=str, scope="module")
every_one_with_heads = pytest.mark.parametrize("variant", [v for v in ALL if has_heads(v)], ids=str, scope="module")
# one change of one base: the forms of attention are compared with one another in tests/ops, too
few_variants = pytest.mark.parametrize(
    "variant", [v for v in ALL if v.base == "gpt" and len(v.changes) < 2 and has_heads(v)], ids=str, scope="module"
)


def with_windows(model: Model, window: int | None) -> Model:
    """The model with the window of every mixer that can have one."""

    def changed(mixer: Any) -> Any:
        return replace(mixer, window=window) if hasattr(mixer, "window") else mixer

    def layers(which: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(layer, mixer=changed(layer.mixer)) for layer in which)

    return replace(
        model,
        mixer=changed(model.mixer),
        pattern=layers(model.pattern),
        first_layers=layers(model.first_layers),
    )


@every_variant
@pytest.mark.claim("C14")
def test_a_prefix_has_the_logits_of_its_part_of_the_whole(variant: Variant):
    if not (variant.model.causal and reads_each(variant.model)):
        pytest.skip("later tokens are seen, or its head reads one vector a row")
    assert_close(logits(variant.model, 5), logits(variant.model)[:, :5], TOLERANCE[variant.model.dtype])


@every_one_with_heads
@pytest.mark.bug("apple/axlearn#842")
def test_grouped_heads_are_repeated_heads(variant: Variant):
    """Neighbouring query heads share a key head: of N heads in K groups, head n reads group n K // N."""
    grouped = put(variant.model, "attention.num_kv_heads", variant.model.attention.num_heads // 2)
    single = put(variant.model, "attention.num_kv_heads", None)

    def repeat(leaf: jax.Array, names: tuple[str, ...]) -> jax.Array:
        return jnp.repeat(leaf, 2, names.index("kv_heads")) if "kv_heads" in names else leaf

    repeated = jax.tree.map(repeat, parameters(grouped), decoder(grouped).axes())
    assert_close(run(single, ROWS, repeated), logits(grouped), TOLERANCE[variant.model.dtype])


@every_one_with_heads
def test_a_window_of_the_whole_length_is_no_window(variant: Variant):
    assert_close(logits(with_windows(variant.model, LENGTH)), logits(with_windows(variant.model, None)), 0.0)


@few_variants
@pytest.mark.bug("jax-ml/jax#28974")
def test_every_implementation_of_attention_is_the_plain_one(variant: Variant):
    plain = put(variant.model, "attention.implementation", "plain")
    for name in get_args(field_types(Attention)["implementation"]):
        try:
            got = logits(put(put(plain, "attention.implementation", name), "attention.block_size", 5))
        except ConfigError as refusal:
            assert "attention.implementation" in str(refusal)
        else:
            assert_close(got, logits(plain), TOLERANCE[plain.dtype])


@every_variant
@pytest.mark.bug("huggingface/transformers#46634")
@pytest.mark.claim("C17")
def test_documents_packed_into_a_row_do_not_see_each_other(variant: Variant):
    """Three tokens of a row before five of the row above it."""
    model, rows = variant.model, len(TOKENS)
    if not reads_each(model):
        pytest.skip("its head reads one vector a row, whatever is in it")
    packed = Batch(
        tokens=jnp.concatenate([TOKENS[:, :3], jnp.roll(TOKENS, 1, axis=0)[:, :5]], axis=1),
        segments=jnp.tile(jnp.array([1] * 3 + [2] * 5), (rows, 1)),
        positions=jnp.tile(jnp.concatenate([jnp.arange(3), jnp.arange(5)]), (rows, 1)),
    )
    first = logits(model, 5)[:, :3] if model.causal else logits(model, 3)  # a prefix: see above
    alone = np.concatenate([first, np.roll(logits(model, 5), 1, axis=0)], axis=1)
    assert_close(run(model, packed), alone, TOLERANCE[model.dtype])
