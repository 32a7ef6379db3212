"""The parameters of every variant: how many there are, how they start, and which of them two arms share."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import decoder
from variants import BASES, VARIANTS, Variant, put, put_all

from txjax.config import Layer, Model
from txjax.models.costs import count_parameters
from txjax.models.decoder import Decoder
from txjax.nn.mixers.attention import SelfAttention
from txjax.nn.parameters import is_spec, path_name

KEY = jax.random.key(7)
every_variant = pytest.mark.parametrize("variant", VARIANTS, ids=str)


def closed_form(model: Model) -> int:
    """The number of parameters, from the definitions of the parts."""
    D, V, heads = model.width, model.vocab_size or 0, model.attention
    N, H = heads.num_heads, heads.head_dim or D // heads.num_heads
    K, E = heads.num_kv_heads or N, model.embedding.own_width or D

    def norm(width: int, of: Any = model.norm) -> int:
        bias = getattr(of, "bias", False)
        return {"layer": width * (1 + bias), "rms": width, "batch": 4 * width, "none": 0}[of.kind]

    def mixer(kind: Any, its_norm: Any) -> int:
        if kind.kind == "none":
            return 0
        gate = D * D + D
        counts = {
            "attention": lambda: attention() + qk_norms() + heads.sinks * N,
            "latent": lambda: latent(kind) + heads.output_bias * D + heads.sinks * N,
            "linear_attention": attention,
            "rnn": lambda: gate + D * D,
            "gru": lambda: 3 * (gate + D * D) + D,
            "lstm": lambda: 4 * (gate + D * D),
            "min_gru": lambda: 2 * gate,
            "convolution": lambda: kind.kernel_size * D * (D if kind.channels == "full" else 1) + D,
        }
        return norms_around * norm(D, its_norm) + counts[kind.kind]()

    def attention() -> int:
        matrices = D * N * H + 2 * D * K * H + N * H * D
        return matrices + heads.qkv_bias * (N + 2 * K) * H + heads.output_bias * D

    def qk_norms() -> int:
        return {"none": 0, "head": 2 * norm(H), "all": norm(N * H) + norm(K * H)}[heads.qk_norm]

    def latent(kind: Any) -> int:
        R = kind.rope_dim or max(2, 2 * round(H / 6))
        C, W, Q = kind.kv_rank or 4 * (H - R), kind.value_dim or H - R, kind.q_rank
        down = D * (C + R) + heads.qkv_bias * (C + R) + norm(C)
        up = C * N * (H - R + W) + N * W * D
        queries = D * Q + norm(Q) + Q * N * H if Q else D * N * H
        return down + up + queries + heads.qkv_bias * (Q or N * H)

    def feedforward(kind: Any) -> int:
        if kind.kind == "none":
            return 0
        gated = kind.activation in ("swiglu", "geglu", "geglu_tanh", "swiglu_clamped")
        F = kind.hidden or (math.ceil(8 * D / 3 / 8) * 8 if gated else 4 * D)

        def network(width: int) -> int:
            return (2 + gated) * D * width + kind.bias * ((1 + gated) * width + D)

        if kind.kind == "dense":
            return norms_around * norm(D) + network(F)
        E, shared = kind.num_experts, kind.num_shared
        router = (D + kind.router_bias) * E + (0 if kind.bias_speed is None else E)
        return norms_around * norm(D) + router + E * network(F) + (network(shared * F) if shared else 0)

    def head(kind: Any) -> int:
        pooler = D * D + D
        counts = {
            "tied": lambda: kind.bias * V + (D * E if model.embedding.own_width else 0),
            "linear": lambda: (D + kind.bias) * (kind.outputs or V),
            "none": lambda: 0,
            "pooler": lambda: pooler,
            "classes": lambda: (D + 1) * kind.outputs + (pooler if kind.pooler == "tanh" else 0),
            "replaced": lambda: pooler + D + 1,
            "masked": lambda: D * E + kind.bias * E + norm(E) + V + (pooler + 2 * D + 2 if kind.next_sentence else 0),
        }
        return counts[kind.kind]()

    norms_around = 2 if model.norm_placement == "sandwich" else 1
    layers = (
        mixer(layer.mixer or model.mixer, layer.mixer_norm or model.norm)
        + feedforward(layer.feedforward or model.feedforward)
        for layer in (model.first_layers + model.pattern if model.sharing == "periods" else model.layers)
    )
    table = {"learned": model.context * E, "sinusoidal": 0, "rope": 0, "alibi": 0, "none": 0}[model.position.kind]
    last_norm = 0 if model.norm_placement == "post" else norm(D)
    first_norm = norm(E) if model.embedding_norm else 0
    projection = E * D + D if model.embedding.own_width else 0
    return V * E + table + first_norm + projection + sum(layers) + last_norm + head(model.head)


@every_variant
def test_the_count_is_the_closed_form(variant: Variant):
    try:
        expected = closed_form(variant.model)
    except (KeyError, AttributeError) as unknown:
        pytest.skip(f"the closed form of {unknown} is not known here")
    assert count_parameters(decoder(variant.model).shapes()) == expected


Place = tuple[int | None, str]  # number of the layer, or None outside of layers, and the path inside it


def by_layer(model: Model, tree: Any) -> dict[Place, Any]:
    """Each parameter of each layer by itself, stacked or not."""
    places: dict[Place, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_spec):
        stacked, *rest = path_name(path).split("/")
        if stacked == "layers":
            block = int(rest.pop(0).removeprefix("block_"))
            for period in range(model.periods):
                number = len(model.first_layers) + block + period * len(model.pattern)
                whole = is_spec(leaf) or model.sharing == "periods"
                places[number, "/".join(rest)] = leaf if whole else np.asarray(leaf[period])
        elif stacked.startswith("first_"):
            places[int(stacked.removeprefix("first_")), "/".join(rest)] = leaf
        else:
            places[None, path_name(path)] = leaf
    return places


@cache
def start(model: Model) -> tuple[dict[Place, np.ndarray], dict[Place, float]]:
    """The initial parameters, and the standard deviation that each declares."""
    values = {place: np.asarray(leaf) for place, leaf in by_layer(model, decoder(model).init(KEY)).items()}
    return values, {place: spec.std for place, spec in by_layer(model, decoder(model).specs).items()}


@every_variant
def test_it_shares_its_initial_parameters_with_its_base(variant: Variant):
    """Bit for bit where the law is the same; where its spread is another, the same draws."""
    (base, base_std), (own, own_std) = start(BASES[variant.base]), start(variant.model)
    shared = [place for place in base.keys() & own.keys() if base[place].size == own[place].size]
    assert ((None, "embedding/w") in shared) == (variant.model.embedding.own_width is None)
    for place in shared:
        left, right = base[place].ravel(), own[place].ravel()  # heads of other widths cut the same matrix
        if base_std[place] == own_std[place]:
            assert np.array_equal(left, right), place
        else:
            np.testing.assert_allclose(left / base_std[place], right / own_std[place], rtol=1e-6)


ARMS: dict[str, tuple[tuple[str, Any], ...]] = {
    "deeper": (("num_layers", 5),),
    "another norm placement": (("norm_placement", "sandwich"),),
    "added query and key norms": (("attention.qk_norm", "head"),),
    "unrolled": (("unroll", "all"),),
    "a period of two": (("num_layers", 4), ("pattern", (Layer(), Layer(mixer=SelfAttention(window=3))))),
    "a layer before the first period": (("num_layers", 3), ("first_layers", (Layer(),))),
    "layers that share their parameters": (("num_layers", 3), ("sharing", "periods")),
}


@pytest.mark.parametrize("arm", ARMS.values(), ids=ARMS.keys())
def test_an_arm_shares_all_parameters_of_its_base_bit_for_bit(arm: tuple[tuple[str, Any], ...]):
    base, own = start(BASES["llama"])[0], start(put_all(BASES["llama"], arm))[0]
    assert base.keys() <= own.keys()
    for place, values in base.items():
        assert np.array_equal(values, own[place]), place


@pytest.mark.bug("google/flax#2665", "T119")
def test_layers_and_matrices_start_from_draws_of_their_own():
    values, spreads = start(BASES["gpt"])
    draws = [values[place].ravel()[:100] for place, std in spreads.items() if std]
    correlations = np.corrcoef(draws) - np.eye(len(draws))
    assert np.abs(correlations).max() < 0.5  # 100 independent draws: 0.1 is one standard deviation


ONE_AND_EIGHT_DEVICES = """
import jax, numpy as np
from txjax.config import Config, Mesh, Train
from txjax.models import Decoder, presets
from txjax.parallel import make_layout
from txjax.train.programs import Programs

model = Decoder(presets.llama(32, 2, 4, hidden=40, num_kv_heads=2, context=8, vocab_size=64))
config = Config(model=model.config, mesh=Mesh(data=2, fsdp=2, tensor=2), train=Train(seed=3))
layout = make_layout(config.mesh)
with layout.scope():
    sharded = Programs(config, model, layout).initial_state().params
plain = model.init(jax.random.split(jax.random.key(3))[0])
assert len(plain["embedding"]["w"].sharding.device_set) == 1 < len(sharded["embedding"]["w"].sharding.device_set)
for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(sharded), strict=True):
    assert np.array_equal(one, other)
"""


@pytest.mark.slow
def test_compiled_and_sharded_initialisation_gives_the_same_bits():
    """In a process without the compiler flags of the tests: the older code generator rounds a draw times its std, plus
    its mean, once or twice, as it likes.
    """
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    ended = subprocess.run([sys.executable, "-c", ONE_AND_EIGHT_DEVICES], env=os.environ | flags, capture_output=True)
    assert ended.returncode == 0, ended.stderr.decode()


def test_the_laws_of_initialisation():
    wide = put_all(BASES["gpt"], (("width", 256), ("num_layers", 8), ("init.embedding_std", 0.5)))
    expected = {
        (None, "embedding/w"): 0.5,
        (3, "attention/query/w"): 0.02,
        (3, "attention/out/w"): 0.02 / 4,  # 1 / sqrt(2 L)
        (3, "dense/in/w"): 0.02,
        (3, "dense/out/w"): 0.02 / 4,
        (3, "attention/query/b"): 0.0,
    }
    values, _ = start(wide)
    assert {place: pytest.approx(values[place].std(), rel=0.05) for place in expected} == expected
    values, _ = start(put(wide, "init", "fan_in"))
    assert values[3, "dense/out/w"].std() == pytest.approx(1024**-0.5, rel=0.05)
    assert values[3, "attention/out/w"].std() == pytest.approx(256**-0.5, rel=0.05)
    assert values[None, "final_norm/gain"].mean() == 1.0


def test_without_partitionable_draws_initialisation_refuses():
    with jax.threefry_partitionable(False), pytest.raises(RuntimeError, match="jax_threefry_partitionable"):
        Decoder(BASES["gpt"]).init(KEY)


@pytest.mark.bug("huggingface/transformers#11364", "T110")
def test_a_tied_head_is_the_embedding():
    tied = Decoder(put(BASES["llama"], "head", "tied"))
    params = tied.init(KEY)
    assert "head" not in params
    hidden = jnp.ones((1, 32))
    np.testing.assert_allclose(tied.unembed(params, hidden)[0], params["embedding"]["w"].sum(1), rtol=1e-5)


@pytest.mark.bug("pytorch/pytorch#55270", "lucidrains/vit-pytorch#56")
@pytest.mark.parametrize(("placement", "norms"), [("pre", 5), ("post", 4), ("output", 5), ("sandwich", 9)])
def test_a_stack_has_the_norms_of_its_placement(placement: str, norms: int):
    """2L and a last one of its own, but for post, whose stream is normalised already; L is 2."""
    values, _ = start(put(put(BASES["gpt"], "num_layers", 2), "norm_placement", placement))
    assert sum(path.endswith("norm/gain") for _, path in values) == norms
