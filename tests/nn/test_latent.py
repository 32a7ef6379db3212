"""Latent attention: what it caches, how it decodes, and what it refuses. Its values: test_mixers_golden.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Attention, Config, Model
from txjax.models import Decoder, costs
from txjax.nn.mixers.latent import Latent
from txjax.ops.norms import RMSNorm
from txjax.ops.positions import Alibi, Rope, YarnScaling
from txjax.schema import ConfigError

LENGTH = 12
MODEL = Model(
    width=16, num_layers=2, vocab_size=32, context=LENGTH, norm=RMSNorm(), position=Rope(pairs="interleaved"),
    attention=Attention(num_heads=4, head_dim=10), mixer=Latent(q_rank=7, kv_rank=9, rope_dim=4, value_dim=5),
)  # fmt: skip
ROWS = jnp.asarray(np.random.default_rng(0).integers(0, 32, (2, LENGTH)), jnp.int32)

MODELS = {
    "rope": MODEL,
    "yarn": replace(MODEL, position=Rope(scaling=YarnScaling(factor=8.0, original_context=4))),
    "alibi, sinks and softcap": replace(
        MODEL, position=Alibi(), attention=Attention(num_heads=4, head_dim=10, sinks=True, softcap=3.0)
    ),
    "blockwise": replace(MODEL, attention=replace(MODEL.attention, implementation="blockwise", block_size=5)),
}


def parameters(model: Model) -> Any:
    random = np.random.default_rng(1)
    return jax.tree.map(lambda w: jnp.asarray(random.normal(0.1, 0.4, w.shape), jnp.float32), Decoder(model).shapes())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_decoding_from_compressed_vectors_is_the_full_pass(model: Model):
    decoder, params, lengths = Decoder(model), parameters(model), jnp.array([3, 6])
    real = jnp.arange(6) < lengths[:, None]
    want = jax.jit(decoder.apply)(params, Batch(tokens=ROWS)).logits
    prompts = Batch(tokens=jnp.where(real, ROWS[:, :6], 0), segments=real.astype(jnp.int32))
    logits, cache = jax.jit(decoder.prefill, static_argnums=2)(params, prompts, LENGTH)
    step = jax.jit(decoder.step)
    for ahead in range(6):
        np.testing.assert_allclose(logits, want[jnp.arange(2), lengths - 1 + ahead], atol=1e-4)
        logits, cache = step(params, ROWS[jnp.arange(2), lengths + ahead], cache)


def test_what_is_cached_is_the_compressed_vector_and_the_rotated_part():
    config = Config(model=MODEL)
    assert costs.memory(Decoder(MODEL), config)["state, a token more"] == 2 * (9 + 4) * 4  # layers, numbers, bytes
    whole = replace(MODEL, mixer="attention")
    keys_and_values = 2 * 4 * 10  # of 4 heads
    assert costs.memory(Decoder(whole), config)["state, a token more"] == 2 * keys_and_values * 4


def test_a_step_never_makes_the_keys():
    """No array of its program has the 4 heads, the cached tokens and a width, as keys and values would."""
    decoder = Decoder(MODEL)
    cache = jax.eval_shape(lambda: decoder.empty_cache(2, 37))
    program = jax.make_jaxpr(decoder.step)(decoder.shapes(), jax.ShapeDtypeStruct((2,), jnp.int32), cache).jaxpr
    cached = {shape for shape in shapes(program) if 37 in shape[:-1] and shape[-1] > 1}
    assert (2, 1, 37, 9 + 4) in cached and not any(4 in shape for shape in cached)


def shapes(jaxpr: Any) -> list[tuple[int, ...]]:
    """Of everything that a program makes, inner programs included."""
    found = []
    for eqn in jaxpr.eqns:
        found += [tuple(out.aval.shape) for out in eqn.outvars]
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                found += shapes(inner) if hasattr(inner, "eqns") else []
    return found


def test_sizes_left_out_are_in_the_proportions_of_the_paper():
    """DeepSeek-V2, section 3.1.2: heads of 128 + 64, values of 128, and 4 x 128 numbers for all of them."""
    heads = Attention(num_heads=2, head_dim=192)
    model = Model(width=8, num_layers=1, vocab_size=3, attention=heads, position=Rope(), mixer=Latent())
    assert (Latent().widths(model), Latent().rank(model)) == ((128, 64, 128), 512)
    assert Decoder(model).empty_cache(1, 5).states["layers"][0]["mixer"].shape == (1, 1, 1, 5, 576)


def test_the_attention_of_deepseek_v3_has_its_number_of_parameters():
    """From the published sizes: 187,107,328 in each of 61 layers."""
    model = Model(
        width=7168, num_layers=61, vocab_size=129280, context=4096, norm=RMSNorm(), position=Rope(),
        attention=Attention(num_heads=128, head_dim=192, qkv_bias=False, output_bias=False),
        mixer=Latent(q_rank=1536, kv_rank=512, rope_dim=64, value_dim=128), feedforward="none", head="linear",
    )  # fmt: skip
    mixers = Decoder(model).shapes()["layers"]["block_0"]["latent"]
    assert costs.count_parameters(mixers) == 61 * 187_107_328


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            {"attention": Attention(head_dim=10, implementation="xla")},
            r"which attention\.implementation=xla cannot serve",
        ),
        ({"attention": Attention(head_dim=10, qk_norm="all")}, r"norms of its own: set attention\.qk_norm=none"),
        ({"mixer": Latent(rope_dim=10)}, r"rope_dim must leave a part of attention\.head_dim=10 alone, got 10"),
        ({"mixer": Latent(rope_dim=3)}, "position.rope turns pairs and needs an even head_dim, got 3"),
    ],
)
def test_what_it_cannot_be_is_refused(change: dict[str, Any], complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        replace(MODEL, **change)
    with pytest.raises(ConfigError, match="kv_rank must be at least 1 or none, got 0"):
        Latent(kv_rank=0)
