"""The logit lens, against the model's own logits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import probe
from txjax.batch import Batch
from txjax.config import Encoder, Layer, Model
from txjax.models import Decoder
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.heads.pooler import PoolerHead
from txjax.ops.norms import BatchNorm, NoNorm, RMSNorm
from txjax.probe.lens import speaks
from txjax.schema import ConfigError

MODEL = Model(width=16, num_layers=3, vocab_size=11, context=8)
BATCH = Batch(tokens=jnp.asarray(np.random.default_rng(0).integers(0, 11, (2, 6)), jnp.int32))
MODELS: dict[str, Model] = {
    "pre": MODEL,
    "post": replace(MODEL, norm_placement="post", causal=False, head=Masked()),
    "sandwich": replace(MODEL, norm_placement="sandwich", norm=RMSNorm(), head=LinearHead()),
    "batch norm": replace(MODEL, norm=BatchNorm()),
    "no norm": replace(MODEL, norm=NoNorm()),
    "capped": replace(MODEL, logit_softcap=3.0),
    "first layers": replace(MODEL, first_layers=(Layer(),), pattern=(Layer(), Layer())),
    "over an encoder": replace(MODEL, encoder=Encoder(num_layers=1)),
}


def made(config: Model) -> tuple[Decoder, Any, Batch]:
    model = Decoder(config)
    leaves, tree = jax.tree.flatten(model.shapes())
    params = [jnp.asarray(1 + 0.3 * np.random.default_rng(i).standard_normal(x.shape)) for i, x in enumerate(leaves)]
    batch = BATCH if config.encoder is None else replace(BATCH, source=BATCH.tokens[:, ::-1])
    return model, jax.tree.unflatten(tree, [p.astype(jnp.float32) for p in params]), batch


@pytest.mark.parametrize("config", MODELS.values(), ids=MODELS)
def test_after_the_last_layer_the_lens_shows_the_logits(config: Model):
    model, params, batch = made(config)
    found = probe.logit_lens(model, params, batch)
    assert found.shape == (4, 2, 6, 11)
    np.testing.assert_allclose(found[-1], model.apply(params, batch).logits, rtol=1e-4, atol=1e-4)
    assert np.abs(found[0] - found[-1]).max() > 1e-3


def test_after_k_layers_it_shows_the_logits_of_a_model_of_k_layers():
    model, params, batch = made(MODEL)
    found = probe.logit_lens(model, params, batch)
    for k in (1, 2):
        shorter = params | {"layers": jax.tree.map(lambda leaf, k=k: leaf[:k], params["layers"])}
        want = Decoder(replace(MODEL, num_layers=k)).apply(shorter, batch).logits
        np.testing.assert_allclose(found[k], want, rtol=1e-4, atol=1e-4)


def test_guesses_are_the_likeliest_ids_with_their_probabilities():
    model, params, batch = made(MODEL)
    ids, probabilities = probe.guesses(model, params, batch, k=3)
    p = np.asarray(jax.nn.softmax(probe.logit_lens(model, params, batch)))
    np.testing.assert_allclose(probabilities, -np.sort(-p, axis=-1)[..., :3], rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(p, np.asarray(ids), -1), probabilities, rtol=1e-4)


@pytest.mark.parametrize("head", [NoHead(), PoolerHead(), Classes(outputs=11)])
def test_a_head_that_predicts_no_tokens_has_no_lens(head: Any):
    model, params, batch = made(replace(MODEL, causal=False, head=head))
    assert not speaks(model) and speaks(Decoder(MODEL))
    with pytest.raises(ConfigError, match=f"needs a head that predicts tokens, got head={head.kind}"):
        probe.logit_lens(model, params, batch)
