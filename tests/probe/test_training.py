"""txjax/probe/training.py: the probes that a run takes of itself."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import presets, probe
from txjax.batch import Batch
from txjax.config import Config, Data
from txjax.models import build
from txjax.probe import training
from txjax.schema import ConfigError, with_values

MODEL = presets.gpt2(width=16, num_layers=3, num_heads=2, context=8, vocab_size=11, position="none", init="fan_in")
BATCH = Batch(*jax.random.randint(jax.random.key(7), (2, 2, 8), 0, 11))


def test_each_probe_is_what_its_function_says_layer_by_layer():
    model = build(MODEL)
    params = model.init(jax.random.key(0))
    found = jax.jit(lambda params: training.measure(training.NAMES, model, params, BATCH))(params)
    maps = probe.attention_maps(model, params, BATCH)
    assert set(found) == set(training.NAMES) and {len(row) for row in found.values()} == {3}
    np.testing.assert_allclose(found["softmax_entropy"], [probe.entropy(w).mean() for w in maps], rtol=1e-5)
    squares = [np.median((np.asarray(w) ** 2).sum(-1)) for w in maps]
    np.testing.assert_allclose(found["softmax_saturation"], squares, rtol=1e-5)
    gradients = probe.weight_gradients(model, params, BATCH)
    np.testing.assert_allclose(found["gradient_norm"], probe.gradient_norms(gradients), rtol=1e-5)
    q, k = (
        jnp.stack(probe.captured(model.apply(params, BATCH, capture=(name,)).captured, name))
        for name in ("queries", "keys")
    )
    np.testing.assert_allclose(
        found["score_variance"], [probe.score_variance(*pair) for pair in zip(q, k, strict=True)], rtol=1e-5
    )


def test_the_scale_that_a_study_varies_is_that_of_the_knobs():
    """A compiled probe serves all cells of a program, and the scale is no constant of it."""
    params = build(MODEL).init(jax.random.key(0))
    other = build(with_values(MODEL, {"attention.scale": "none"}))
    found = training.measure(training.NAMES, build(MODEL), params, BATCH, other.knobs())
    want = training.measure(training.NAMES, other, params, BATCH)
    for name in training.NAMES:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-5)


def test_even_weights_have_the_theorys_entropy_and_saturation():
    """Queries of 0 weigh all keys alike; independent components of variance 1 have scores of variance d_k."""
    for causal in (True, False):
        config = Config(model=replace(MODEL, causal=causal), data=Data(context=8))
        model = build(config.model)
        params = model.init(jax.random.key(0))
        params["layers"]["block_0"]["attention"]["query"]["w"] *= 0
        found = training.measure(("softmax_entropy", "softmax_saturation"), model, params, BATCH)
        for name, row in found.items():
            assert row.tolist() == pytest.approx([training.theory(name, config)] * 3, rel=1e-5)
    assert training.theory("softmax_entropy", config) == pytest.approx(math.log(8))
    assert training.theory("score_variance", config) == 8
    assert training.theory("gradient_norm", config) is None
    windowed = with_values(config, {"model.mixer": "attention", "model.mixer.attention.window": 4})
    assert training.theory("softmax_entropy", windowed) is None


def test_a_model_without_attention_has_no_probe_of_it():
    model = build(presets.lstm(width=8, num_layers=2, vocab_size=11, context=8))
    found = training.measure(training.NAMES, model, model.init(jax.random.key(0)), BATCH)
    assert list(found) == ["gradient_norm"]
    assert list(training.figures(found)) == ["probe/gradient_norm/layer_0", "probe/gradient_norm/layer_1"]


def test_an_unknown_probe_is_refused():
    with pytest.raises(
        ConfigError, match=r"log\.probes: 'softmax_entrpy' is not a probe, did you mean 'softmax_entropy'"
    ):
        training.refuse_unknown(("gradient_norm", "softmax_entrpy"))
