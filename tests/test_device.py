"""What an accelerator computes, against the CPU beside it: `JAX_PLATFORMS=cuda,cpu pytest -m device`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import LSTM, Config, Model, Optim, Train
from txjax.decode import Sampling, generate
from txjax.models import Decoder, presets
from txjax.ops import Causal, attention
from txjax.train.state import hyper, initial_state
from txjax.train.step import make_train_step

pytestmark = pytest.mark.device
V, T, ROWS, STEPS = 64, 48, 4, 5
MODELS: dict[str, Model] = {
    "gpt2": presets.gpt2(64, 2, 4, context=T, vocab_size=V),
    "llama": presets.llama(64, 2, 4, num_kv_heads=2, hidden=96, context=T, vocab_size=V),
    "mixtral": presets.mixtral(64, 2, 4, num_kv_heads=2, hidden=96, num_experts=4, context=T, vocab_size=V),
    "gru": presets.gru(64, 2, context=T, vocab_size=V),
    "lstm": presets.lstm(64, 2, context=T, vocab_size=V),
    "min_gru": presets.min_gru(64, 2, context=T, vocab_size=V),
}
PRECISE = {"matmul_precision": "highest"}  # an accelerator's own float32 products are rounded to fewer bits


def on(device: jax.Device, function: Callable[..., Any], *arrays: Any) -> Any:
    """What the device makes of them, in host memory."""
    with jax.default_device(device):
        return jax.device_get(jax.jit(function)(*jax.device_put(arrays, device)))


def here() -> jax.Device:
    return jax.devices()[0]


def host() -> jax.Device:
    return jax.devices("cpu")[0]


def heads(dtype: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    random = np.random.default_rng(0)
    shapes = (2, 4, 128, 64), (2, 2, 128, 64), (2, 2, 128, 64)
    q, k, v = (jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes)
    return q, k, v


def mixed(implementation: str, dtype: Any) -> Callable[..., Any]:
    """Attention and its gradients."""

    def loss(*qkv: jax.Array) -> tuple[jax.Array, jax.Array]:
        y, _ = attention(*qkv, scale=0.125, mask=Causal(), implementation=implementation)
        return jnp.square(y.astype(jnp.float32)).sum(), y

    def both(*qkv: jax.Array) -> Any:
        with jax.default_matmul_precision("highest"):
            return jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*(x.astype(dtype) for x in qkv))

    return both


@pytest.mark.parametrize("implementation", ["plain", "recomputed", "xla", "blockwise"])
def test_attention_is_that_of_the_cpu(implementation: str):
    """Within 1e-4: sums over 128 keys in another order, in float32."""
    expected = on(host(), mixed("plain", jnp.float32), *heads(jnp.float32))
    found = on(here(), mixed(implementation, jnp.float32), *heads(jnp.float32))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4, rtol=1e-4)


def test_attention_of_cudnn_is_that_of_the_cpu():
    """Within 3 % of the largest entry: cuDNN computes in bfloat16, of 8 bits."""
    if here().platform != "gpu":
        pytest.skip("cuDNN needs an NVIDIA GPU")
    qkv = heads(jnp.bfloat16)
    expected = on(host(), mixed("plain", jnp.float32), *qkv)
    found = on(here(), mixed("cudnn", jnp.bfloat16), *qkv)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a, np.float32), np.asarray(b, np.float32)
        assert np.abs(a - b).max() < 0.03 * np.abs(b).max()


def test_the_lstm_of_cudnn_trains_as_the_scan():
    """Losses of five steps within 1 %: on tensor cores cuDNN rounds products of float32 to 10 bits."""
    if here().platform != "gpu":
        pytest.skip("cuDNN needs an NVIDIA GPU")
    fused = replace(MODELS["lstm"], mixer=LSTM(implementation="cudnn"))
    np.testing.assert_allclose(losses(fused, here()), losses(MODELS["lstm"], host()), rtol=0.01)


def batches() -> list[Batch]:
    text = np.random.default_rng(1).integers(0, V, (STEPS, ROWS, T + 1)).astype(np.int32)
    return [Batch(tokens=x[:, :-1], targets=x[:, 1:], weights=np.ones((ROWS, T), np.float32)) for x in text]


def losses(model: Model, device: jax.Device) -> list[float]:
    """Of the first steps, from the same weights."""
    config = Config(model=model, optim=Optim(learning_rate=1e-2), train=Train(steps=STEPS, batch_size=ROWS))
    module, found = Decoder(model), []
    state, numbers = on(host(), lambda: initial_state(config, module)), hyper(config, module)
    step = make_train_step(module, config)
    for batch in batches():
        state, seen = on(device, step, state, batch, numbers)
        found.append(float(seen.loss))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_training_goes_as_on_the_cpu(name: str):
    """Losses of five steps within 1e-3: Adam's first steps divide small gradients by their own size."""
    model = replace(MODELS[name], **PRECISE)
    expected = losses(model, host())
    assert expected[-1] != expected[0]
    np.testing.assert_allclose(losses(model, here()), expected, rtol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_half_precision_trains(name: str):
    """In bfloat16, of 8 bits, losses are those of float32 within 2 %."""
    expected = losses(replace(MODELS[name], **PRECISE), here())
    np.testing.assert_allclose(losses(replace(MODELS[name], dtype="bfloat16"), here()), expected, rtol=0.02)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_is_what_the_full_pass_finds_likeliest(name: str):
    """The cache holds what a full pass over the same tokens computes: the difference of logits to the best is small."""
    model = Decoder(replace(MODELS[name], **PRECISE))
    params = on(here(), lambda: model.init(jax.random.key(0)))
    prompt = batches()[0].tokens[:, :8].tolist()
    written = generate(model, params, prompt, tokens=16, sampling=Sampling(0.0), seeds=range(ROWS), context=None)
    tokens = np.concatenate([np.asarray(prompt), np.asarray(written)], axis=1).astype(np.int32)
    logits = on(here(), lambda p, t: model.apply(p, Batch(tokens=t)).logits, params, tokens)[:, 7:-1]
    taken = np.take_along_axis(logits, tokens[:, 8:, None], axis=2)[..., 0]
    np.testing.assert_allclose(taken, logits.max(-1), atol=1e-4)
