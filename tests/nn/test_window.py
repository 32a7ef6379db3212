"""A layer with a window while decoding: a ring of as many slots as the window, and what it must not change."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Attention, Config, Layer, Model
from txjax.models import Decoder, costs
from txjax.nn.attention import held, newest
from txjax.nn.mixers.attention import SelfAttention
from txjax.nn.mixers.none import NoMixer
from txjax.ops.positions import Alibi, NoPosition, Relative, Rope, Sinusoidal
from txjax.schema import ConfigError

WINDOW, LENGTH = 4, 24
LOCAL = SelfAttention(window=WINDOW)
MODEL = Model(
    width=16, num_layers=2, vocab_size=32, context=LENGTH, mixer=LOCAL, remat="none",
    attention=Attention(num_heads=4, num_kv_heads=2), position=Rope(),
)  # fmt: skip
ROWS = jnp.asarray(np.random.default_rng(0).integers(0, 32, (3, LENGTH)), jnp.int32)

# The position schemes differ in what they ask of a key's place: nothing, its rotation, its distance.
MODELS = {
    "rope": MODEL,
    "sinusoidal": replace(MODEL, position=Sinusoidal()),
    "alibi": replace(MODEL, position=Alibi()),
    "relative": replace(MODEL, position=Relative(buckets=8, max_distance=16)),
    "sinks and blocks": replace(MODEL, attention=Attention(sinks=True, implementation="blockwise", block_size=3)),
    "local and global": replace(
        MODEL,
        num_layers=5,
        pattern=(Layer(mixer=replace(LOCAL, position=Rope(theta=100.0))), Layer(mixer=SelfAttention())),
        first_layers=(Layer(mixer=replace(LOCAL, position=NoPosition())),),
    ),
    "a window longer than the text": replace(MODEL, mixer=SelfAttention(window=LENGTH + 9)),
}


@cache
def parameters(model: Model) -> Any:
    """Weights of a visible size."""
    random = np.random.default_rng(1)
    return jax.tree.map(
        lambda w: jnp.asarray(random.normal(0.0, 0.3, w.shape) + (w.shape[-1:] == (16,)), jnp.float32),
        Decoder(model).shapes(),
    )


@cache
def programs(model: Model) -> tuple[Any, Any]:
    return jax.jit(Decoder(model).prefill, static_argnums=2), jax.jit(Decoder(model).step)


def decoded(model: Model, prompts: Batch, lengths: Any, steps: int) -> list[jax.Array]:
    """The logits after each row's prompt and after each of the tokens that follow it in ROWS."""
    (prefill, step), params = programs(model), parameters(model)
    logits, cache = prefill(params, prompts, LENGTH)
    found = [logits]
    for ahead in range(steps):
        logits, cache = step(params, ROWS[jnp.arange(len(lengths)), lengths + ahead], cache)
        found.append(logits)
    return found


@pytest.mark.bug("huggingface/transformers#39408", "apple/axlearn#1009", "ml-explore/mlx-lm#390", "T059")
@pytest.mark.bug("huggingface/transformers#3021", "T013")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_decoding_past_many_turns_of_the_ring_is_the_full_pass(model: Model):
    """Prompts shorter than the window, of two turns and a bit, and just as long as the batch, then three turns more."""
    lengths, longest = jnp.array([2, 9, 11]), 11
    real = jnp.arange(longest) < lengths[:, None]
    prompts = Batch(tokens=jnp.where(real, ROWS[:, :longest], 0), segments=real.astype(jnp.int32))
    want = jax.jit(Decoder(model).apply)(parameters(model), Batch(tokens=ROWS)).logits
    for ahead, got in enumerate(decoded(model, prompts, lengths, 13)):
        np.testing.assert_allclose(got, want[jnp.arange(3), lengths - 1 + ahead], atol=2e-4, err_msg=f"token {ahead}")
    assert float(jnp.abs(want).max()) > 1


def test_prompts_without_padding_are_kept_alike():
    prompts = ROWS[:, :10]
    marked = Batch(tokens=prompts, segments=jnp.ones(prompts.shape, jnp.int32))
    for one, other in zip(
        decoded(MODEL, Batch(tokens=prompts), jnp.full(3, 10), 2),
        decoded(MODEL, marked, jnp.full(3, 10), 2),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)  # two programs: a last bit may be rounded another way


@pytest.mark.bug("huggingface/transformers#39408", "AI-Hypercomputer/maxtext#4289", "T059")
def test_a_cached_query_sees_exactly_as_many_keys_as_the_window_has():
    """Of one layer without positions: the token a window back changes what comes out, the one before it does not."""
    model = replace(MODEL, num_layers=1, position=NoPosition())
    base, length = decoded(model, Batch(tokens=ROWS[:1, :9]), jnp.full(1, 9), 3)[-1], 12
    seen = []
    for place in range(9):
        changed = ROWS[:1, :9].at[0, place].add(1) % 32
        other = decoded(model, Batch(tokens=changed), jnp.full(1, 9), 3)[-1]
        seen += [place] if (other != base).any() else []
    assert seen == [place for place in range(9) if place > length - 1 - WINDOW]


@pytest.mark.parametrize("slots", [1, 3, 4])
def test_a_slot_holds_the_newest_position_that_it_is_the_turn_of(slots: int):
    for last in range(3 * slots):
        want = [max((p for p in range(last + 1) if p % slots == s), default=-1) for s in range(slots)]
        got = np.asarray(held(jnp.array([last]), slots))[0]
        assert np.where(got < 0, -1, got).tolist() == want


def test_of_a_long_prompt_each_rows_last_real_tokens_are_kept():
    tokens = jnp.arange(12.0).reshape(2, 1, 6, 1)
    lengths = np.array([5, 2])
    kept = newest(tokens, jnp.asarray(np.arange(6) < lengths[:, None], jnp.int32), 4)[:, 0, :, 0]
    assert kept[0].tolist() == [4, 1, 2, 3]  # position p in slot p mod 4
    assert kept[1, :2].tolist() == [6, 7]  # the rest of a short row's slots are empty


# Memory


def test_a_layer_keeps_its_window_and_not_the_context():
    model = MODELS["local and global"]
    states = Decoder(model).empty_cache(3, LENGTH).states
    slots = [states[part][i]["mixer"].keys.shape[-2] for part, i in (("first", 0), ("layers", 0), ("layers", 1))]
    assert slots == [WINDOW, WINDOW, LENGTH]
    short = Decoder(model).empty_cache(3, 3).states
    assert short["first"][0]["mixer"].keys.shape[-2] == 3


def test_a_token_more_costs_what_the_layers_without_a_window_keep():
    def memory(model: Model) -> tuple[float, float]:
        found = costs.memory(Decoder(model), Config(model=model))
        return found["state of a text"], found["state, a token more"]

    layer = 2 * 2 * 4 * 4  # keys and values of 2 heads of width 4, in float32
    assert memory(MODEL) == (2 * WINDOW * layer + 4, 0)  # and the row's length
    assert memory(MODELS["local and global"]) == (3 * WINDOW * layer + 4, 2 * layer)
    assert memory(replace(MODEL, mixer=SelfAttention())) == (4, 2 * layer)


def test_generation_has_no_end_where_every_layer_has_a_window():
    assert MODEL.memory is None
    assert replace(MODEL, position=Sinusoidal(), pattern=(Layer(), Layer(mixer=SelfAttention()))).memory == LENGTH


# A layer's own position


@pytest.mark.parametrize("position", [Relative(), Sinusoidal()])
def test_a_position_that_belongs_to_the_model_is_refused_in_a_layer(position: Any):
    with pytest.raises(ConfigError, match=rf"attention\.position={position.kind} has a table or adds to the embedding"):
        replace(MODEL, mixer=SelfAttention(position=position))
    with pytest.raises(ConfigError, match="needs an even head_dim"):
        replace(MODEL, mixer=SelfAttention(position=Rope(fraction=0.75)))


def test_angles_are_made_once_for_each_scheme_and_outside_of_the_layers():
    model = replace(
        MODEL,
        num_layers=7,
        pattern=(
            Layer(mixer=replace(LOCAL, position=Rope(theta=100.0))),
            Layer(mixer=replace(LOCAL, position=Rope(theta=100.0))),
            Layer(mixer=SelfAttention()),
        ),
        first_layers=(Layer(mixer=NoMixer()),),
    )
    assert model.rotations == ((Rope(theta=100.0), 4), (Rope(), 4))
    program = str(jax.make_jaxpr(Decoder(model).apply)(Decoder(model).shapes(), Batch(tokens=ROWS)))
    assert program.count("= cos ") == 2
    scan = program[program.index("scan[") :]
    assert "= cos " not in scan


def test_a_layer_with_the_models_own_position_spelt_out_is_the_same_layer():
    spelt = replace(MODEL, mixer=replace(LOCAL, position=Rope()))
    one, other = (
        jax.jit(Decoder(model).apply)(parameters(MODEL), Batch(tokens=ROWS)).logits for model in (MODEL, spelt)
    )
    np.testing.assert_array_equal(one, other)


def test_a_step_of_two_tokens_is_refused():
    decoder, two = Decoder(MODEL), Batch(tokens=ROWS[:, :2])
    cache = decoder.empty_cache(3, LENGTH)
    with pytest.raises(ValueError, match="a layer with a window reads one token a step"):
        decoder._cached(parameters(MODEL), two, jnp.arange(2)[None], cache.states, cache.lengths_B)
