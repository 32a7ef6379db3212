"""Recurrent layers and convolutions as mixers: how they start, what they refuse, and what they cost."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.config import GRU, LSTM, Config, Convolution, Layer, Mixer, Model, NoMixer, NoPosition, Optim
from txjax.models import Decoder, costs, presets
from txjax.nn.parameters import path_name
from txjax.nn.recurrent import FixedState
from txjax.schema import ConfigError
from txjax.train.optimizers import Scale, scales_of

SIZES: dict[str, Any] = {"width": 16, "num_layers": 2, "vocab_size": 11, "context": 8}
STATES = [kind for kind in Mixer.members().values() if issubclass(kind, FixedState)]
every_kind = pytest.mark.parametrize("kind", STATES, ids=lambda kind: kind.kind)


def parameters(mixer: Mixer, **more: Any) -> Any:
    """Of the mixers of all layers, at their start."""
    params = Decoder(Model(mixer=mixer, **SIZES | more)).init(jax.random.key(0))
    return params["layers"]["block_0"][mixer.kind]


def test_recurrent_weights_start_by_a_law_of_their_own_and_other_ones_by_that_of_the_config():
    weights = parameters(GRU(), width=64)
    assert weights["recurrent"]["w"].std() == pytest.approx(64**-0.5, rel=0.03)
    assert weights["input"]["w"].std() == pytest.approx(0.02, rel=0.03)
    radius = np.abs(np.linalg.eigvals(np.moveaxis(np.asarray(weights["recurrent"]["w"]), 2, 1))).max(-1)
    assert ((radius > 0.8) & (radius < 1.3)).all()  # of each gate of each layer


@pytest.mark.parametrize("start", [1.0, 0.0, -2.0])
def test_the_forget_bias_starts_where_the_config_says(start: float):
    biases = parameters(LSTM(forget_bias=start))["input"]["b"]
    assert (biases == jnp.array([0, start, 0, 0])[:, None]).all()


@every_kind
def test_it_needs_a_causal_model(kind: type[Mixer]):
    with pytest.raises(ConfigError, match=rf"causal=false needs a mixer that can see later tokens, got {kind.kind}"):
        Model(mixer=kind(), causal=False)


def test_heads_need_not_divide_a_width_that_has_none():
    assert Model(width=50, mixer=LSTM()).width == 50
    with pytest.raises(ConfigError, match=r"attention\.num_heads must divide width=50, got 4"):
        Model(width=50, pattern=(Layer(), Layer(mixer=LSTM())))


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: LSTM(unroll=0), "unroll must be at least 1, got 0"),
        (lambda: Convolution(kernel_size=1), "kernel_size must be at least 2, got 1"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(make: Any, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        make()


def test_generation_has_no_end_where_no_state_grows_with_the_text():
    assert Model(mixer=LSTM(), position=NoPosition(), context=8).memory is None
    assert Model(mixer=NoMixer(), position=NoPosition(), context=8).memory is None
    assert Model(mixer=LSTM(), context=8).memory == 8  # its table of positions ends
    assert Model(pattern=(Layer(mixer=LSTM()), Layer()), position=NoPosition(), context=8).memory == 8


@every_kind
@pytest.mark.claim("C65")
def test_its_state_has_one_size_at_every_length(kind: type[Mixer]):
    config = Config(model=Model(mixer=kind(), position=NoPosition(), **SIZES))
    found = costs.memory(Decoder(config.model), config)
    assert found["state, a token more"] == 0
    vectors = {
        "lstm": 2,
        "convolution": kind().kernel_size - 1 if kind is Convolution else 0,
        "linear_attention": 4 + 1,  # 4 heads of width 4: a matrix and a vector each
    }.get(kind.kind, 1)
    assert found["state of a text"] == 4 * (1 + 2 * vectors * 16)  # the length; float32, two layers of width 16


def test_biases_are_not_decayed_and_matrices_are():
    model = presets.gru(**SIZES)
    scales = scales_of(Optim(), model, Decoder(model).shapes())["layers"]["block_0"]["gru"]
    leaves = jax.tree_util.tree_leaves_with_path(scales, is_leaf=lambda leaf: isinstance(leaf, Scale))
    decays = {path_name(path): scale.weight_decay for path, scale in leaves}
    assert decays == {"b": 0.0, "input/b": 0.0, "input/w": 1.0, "recurrent/w": 1.0}
