"""Images as patches: the projection, the class token, and what they mean for positions and padding."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.signal import correlate

from txjax.batch import Batch
from txjax.config import Encoder, Model
from txjax.models import presets
from txjax.models.decoder import Decoder
from txjax.nn.embeddings.patches import Patches
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.none import NoHead
from txjax.schema import ConfigError

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.standard_normal((2, 3, 8, 8)).astype(np.float32)  # rows, colours, height, width
SIDE = 4
TOKENS = IMAGES.reshape(2, 3, 2, SIDE, 2, SIDE).transpose(0, 2, 4, 1, 3, 5).reshape(2, 4, -1)


def vit(**more: object) -> Model:
    fields = {"patches": 4, "side": SIDE, "classes": 5, "remat": "none"}
    return presets.vit(8, 1, 2, **{**fields, **more})  # type: ignore[arg-type]


def weights(model: Model) -> dict:
    random = np.random.default_rng(1)
    shapes = Decoder(model).shapes()
    return jax.tree.map(lambda leaf: jnp.asarray(0.3 * random.standard_normal(leaf.shape), jnp.float32), shapes)


def run(model: Model, batch: Batch, params: dict | None = None, **more: object) -> jax.Array:
    with jax.disable_jit():
        return Decoder(model).apply(weights(model) if params is None else params, batch, **more)  # type: ignore


def test_the_projection_is_a_convolution_whose_steps_are_as_wide_as_its_kernel():
    model = vit()
    params = weights(model)
    embedded = run(model, Batch(tokens=TOKENS), params, capture=("embedded",)).captured["embedded"][0]
    kernel = np.asarray(params["embedding"]["project"]["w"])  # colours, height, width, D
    for row in (0, 1):
        for d in range(8):
            whole = correlate(IMAGES[row], kernel[..., d], mode="valid")[0, ::SIDE, ::SIDE]
            want = whole.reshape(-1) + params["embedding"]["project"]["b"][d] + params["position"]["table"][1:, d]
            np.testing.assert_allclose(embedded[row, 1:, d], want, rtol=1e-4, atol=1e-5)
    first = params["embedding"]["class_token"]["vector"][0] + params["position"]["table"][0]
    np.testing.assert_allclose(embedded[:, 0], np.stack([first, first]), rtol=1e-6)


@pytest.mark.parametrize("head", [Classes(5), Classes(5, pool="mean"), NoHead()], ids=str)
def test_padding_patches_change_nothing_with_the_class_token_counted(head: object):
    model = vit(head=head)
    alone = run(model, Batch(tokens=TOKENS[:1, :3])).logits
    segments = np.array([[1, 1, 1, 0]])
    padded = run(model, Batch(tokens=TOKENS[:1], segments=segments)).logits
    np.testing.assert_allclose(padded[:, : alone.shape[1]], alone, rtol=1e-4, atol=1e-5)
    placed = run(model, Batch(tokens=TOKENS[:1, :3], positions=np.array([[0, 1, 2]]))).logits
    np.testing.assert_allclose(placed, alone, rtol=1e-5, atol=1e-6)


def test_the_position_table_has_a_row_for_the_class_token_and_the_context_counts_patches():
    assert Decoder(vit()).shapes()["position"]["table"].shape == (4 + 1, 8)
    assert Decoder(vit(embedding=Patches(SIDE, 3))).shapes()["position"]["table"].shape == (4, 8)
    with pytest.raises(ConfigError, match=r"a sequence of 5 tokens runs past model\.context=4"):
        run(vit(), Batch(tokens=np.zeros((1, 5, 48), np.float32)))


def test_a_model_of_images_is_no_encoder_of_another():
    with pytest.raises(ConfigError, match="embedding=patches is of a model that reads images"):
        replace(vit(), encoder=Encoder(1))
