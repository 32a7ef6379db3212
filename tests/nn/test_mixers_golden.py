"""Attention layers and a batch norm as transformers and torch have them: tests/golden/make_mixers.py wrote the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from txjax.config import Attention, Layer, Model
from txjax.models import Decoder
from txjax.nn.context import Context, Rotation
from txjax.nn.mixers.attention import SelfAttention
from txjax.nn.mixers.latent import Latent
from txjax.ops.masks import Causal
from txjax.ops.norms import BatchNorm, RMSNorm
from txjax.ops.positions import LinearScaling, Rope, YarnScaling

GOLDEN = load_file(Path(__file__).parents[1] / "golden" / "mixers.safetensors")
SIZES: dict[str, Any] = {"width": 16, "vocab_size": 11, "context": 64}
N, K = 4, 2


def case(name: str) -> dict[str, np.ndarray]:
    return {path.removeprefix(f"{name}/"): array for path, array in GOLDEN.items() if path.startswith(f"{name}/")}


def run(model: Model, params: list[Any], x: np.ndarray) -> jax.Array:
    """The mixers of the model's layers, one after the other."""
    positions = jnp.arange(x.shape[1])[None]
    rotations = tuple(Rotation(scheme, width, scheme.angles(positions, width)) for scheme, width in model.rotations)
    context = Context(Decoder(model).knobs(), rotations=rotations, mask=Causal())
    y = jnp.asarray(x)
    with jax.disable_jit():
        for layer, own in zip(model.layers, params, strict=True):
            own = jax.tree.map(jnp.asarray, own)
            y, _ = model.mixer_of(layer).module(model, "mixer").apply({"params": own}, y, context, 0, None)
    return y


def maps(weight: np.ndarray, heads: int) -> np.ndarray:
    """(heads x width, D) as (D, heads, width)."""
    return np.moveaxis(weight.reshape(heads, -1, weight.shape[-1]), -1, 0)


def out(weight: np.ndarray) -> np.ndarray:
    """(D, heads x width) as (heads, width, D)."""
    return np.moveaxis(weight.reshape(len(weight), N, -1), 0, -1)


def self_attention(weights: dict[str, np.ndarray], number: int) -> dict[str, Any]:
    own = {p.removeprefix(f"{number}/"): w for p, w in weights.items() if p.startswith(f"{number}/")}
    found: dict[str, Any] = {"out": {"w": out(own["o_proj.weight"])}}
    for name, short, heads in (("query", "q", N), ("key", "k", K), ("value", "v", K)):
        found[name] = {"w": maps(own[f"{short}_proj.weight"], heads)}
        if f"{short}_proj.bias" in own:
            found[name]["b"] = own[f"{short}_proj.bias"].reshape(heads, -1)
        if f"{short}_norm.weight" in own:
            found[f"{name}_norm"] = {"gain": 1 + own[f"{short}_norm.weight"]}  # Gemma's gains count from 1
    if "sinks" in own:
        found |= {"sinks": own["sinks"]}
        found["out"]["b"] = own["o_proj.bias"]
    return found


def latent(weights: dict[str, np.ndarray], rank: int, plain: int) -> dict[str, Any]:
    w = {path.removeprefix("0/").removesuffix(".weight"): array for path, array in weights.items()}
    both = maps(w["kv_b_proj"], N)
    found = {
        "kv_down": {"w": w["kv_a_proj_with_mqa"][:rank].T},
        "key_rope": {"w": w["kv_a_proj_with_mqa"][rank:].T},
        "kv_norm": {"gain": w["kv_a_layernorm"]},
        "key_up": {"w": both[..., :plain]},
        "value_up": {"w": both[..., plain:]},
        "out": {"w": out(w["o_proj"])},
    }
    if "q_proj" in w:
        return found | {"query": {"w": maps(w["q_proj"], N)}}
    query = {
        "query_down": {"w": w["q_a_proj"].T},
        "query_norm": {"gain": w["q_a_layernorm"]},
        "query_up": {"w": maps(w["q_b_proj"], N)},
    }
    return found | query


YARN = Rope(pairs="interleaved", scaling=YarnScaling(factor=8.0, original_context=8, mscale=0.707))


@pytest.mark.parametrize(
    ("name", "position", "implementation"),
    [
        ("deepseek", Rope(pairs="interleaved"), "recomputed"),
        ("deepseek_whole_queries", Rope(pairs="interleaved"), "plain"),
        ("deepseek_yarn", YARN, "recomputed"),
        ("deepseek_yarn", YARN, "blockwise"),
    ],
)
def test_latent_attention_is_that_of_deepseek(name: str, position: Rope, implementation: Any):
    """With YaRN's temperature on the whole product and not on its rotated part alone."""
    golden = case(name)
    heads = Attention(num_heads=N, head_dim=10, qkv_bias=False, output_bias=False, implementation=implementation)
    rank = 7 if name != "deepseek_whole_queries" else None
    mixer = Latent(q_rank=rank, kv_rank=10, rope_dim=4, value_dim=5)
    model = Model(num_layers=1, mixer=mixer, attention=heads, position=position, norm=RMSNorm(eps=1e-6), **SIZES)
    y = run(model, [latent(golden, 10, 6)], golden["x"])
    np.testing.assert_allclose(y, golden["y"], atol=1e-5)
    if name == "deepseek_yarn":
        assert position.temperature() > 1.3


@pytest.mark.bug("huggingface/transformers#39408")
def test_sinks_and_windows_are_those_of_gpt_oss():
    golden = case("gpt_oss")
    layers = (Layer(mixer=SelfAttention(window=3)), Layer())
    heads = Attention(num_heads=N, num_kv_heads=K, head_dim=6, sinks=True)
    model = Model(num_layers=2, pattern=layers, attention=heads, position=Rope(), **SIZES)
    params = [self_attention(golden, number) for number in range(2)]
    np.testing.assert_allclose(run(model, params, golden["x"]), golden["y"], atol=1e-5)


@pytest.mark.bug("huggingface/transformers#39408")
def test_local_layers_with_a_rotation_of_their_own_are_those_of_gemma3():
    golden = case("gemma3")
    layers = (Layer(mixer=SelfAttention(window=3, position=Rope(theta=10.0))), Layer())
    heads = Attention(num_heads=N, num_kv_heads=K, head_dim=6, qk_norm="head", qkv_bias=False, output_bias=False)
    position = Rope(theta=1000.0, scaling=LinearScaling(factor=2.0))
    norm = RMSNorm(eps=1e-6)
    model = Model(num_layers=2, pattern=layers, attention=heads, position=position, norm=norm, **SIZES)
    params = [self_attention(golden, number) for number in range(2)]
    np.testing.assert_allclose(run(model, params, golden["x"]), golden["y"], atol=1e-5)


def test_batch_norm_is_that_of_torch_in_training_and_in_evaluation():
    golden, norm = case("batch_norm"), BatchNorm()
    gains = {"gain": golden["0/weight"], "bias": golden["0/bias"]}
    statistics = {name: jnp.full(16, start) for name, start in norm.statistics().items()}
    for x, y in zip(golden["x"], golden["y"][:2], strict=True):
        got, statistics = norm.train(jnp.asarray(x), gains | statistics, None)
        np.testing.assert_allclose(got, y, atol=1e-5)
    np.testing.assert_allclose(statistics["mean"], golden["0/mean"], atol=1e-6)
    np.testing.assert_allclose(statistics["variance"], golden["0/variance"], rtol=1e-5)
    np.testing.assert_allclose(norm(jnp.asarray(golden["x"][0]), gains | statistics), golden["y"][2], atol=1e-5)
