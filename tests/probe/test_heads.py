"""Probes of single heads, against the weights that they stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Encoder, Layer, Model
from txjax.models import Decoder, presets
from txjax.nn.context import HeadEdit
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.latent import Latent
from txjax.nn.mixers.none import NoMixer
from txjax.probe.heads import mean_loss, row_losses
from txjax.schema import ConfigError

VOCAB, T, S, N = 13, 6, 5, 4
SMALL: dict[str, Any] = {"width": 16, "vocab_size": VOCAB, "context": 16, "attention": Attention(N, num_kv_heads=2)}
MODELS = {
    "decoder": Model(num_layers=2, **SMALL),
    "encoder": Model(num_layers=2, causal=False, norm_placement="post", **SMALL),
    "mixed": Model(num_layers=5, first_layers=(Layer(),), pattern=(Layer(mixer=NoMixer()), Layer()), **SMALL),
    "latent": Model(num_layers=2, mixer=Latent(kv_rank=4), **SMALL),
    "encoder-decoder": Model(num_layers=2, encoder=Encoder(num_layers=3), **SMALL),
}
PARTS = [(name, "self") for name in MODELS] + [("encoder-decoder", "cross"), ("encoder-decoder", "encoder")]
every_part = pytest.mark.parametrize(("name", "part"), PARTS)
draw = np.random.default_rng(0)


def batch_of(model: Model, seed: int = 0) -> Batch:
    draw = np.random.default_rng(seed)
    tokens, targets = jnp.asarray(draw.integers(0, VOCAB, (2, 2, T)), jnp.int32)
    source = jnp.asarray(draw.integers(0, VOCAB, (2, S)), jnp.int32) if model.encoder else None
    return Batch(tokens=tokens, targets=targets, weights=jnp.ones((2, T)).at[1, 4:].set(0.0), source=source)


def made(name: str) -> tuple[Decoder, Any, Batch]:
    """The model with weights that leave nothing near zero, and a batch."""
    model = Decoder(MODELS[name])
    shapes, tree = jax.tree.flatten(model.shapes())
    params = [
        jnp.asarray(0.4 * np.random.default_rng(i).standard_normal(s.shape), s.dtype) for i, s in enumerate(shapes)
    ]
    return model, jax.tree.unflatten(tree, params), batch_of(MODELS[name])


def places(name: str, part: str) -> list[tuple[tuple[str, ...], int | None] | None]:
    """Of each layer of a part: where the tree holds the matrix `out` of its heads, and its entry in it."""
    kind = "cross" if part == "cross" else "latent" if name == "latent" else "attention"
    top = ("encoder",) if part == "encoder" else ()
    if name == "mixed":
        inner = [None, (("layers", "block_1", kind, "out"), 0), None, (("layers", "block_1", kind, "out"), 1)]
        return [(("first_0", kind, "out"), None), *inner]
    layers = 3 if part == "encoder" else 2
    return [((*top, "layers", "block_0", kind, "out"), i) for i in range(layers)]


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def changed(tree: Any, path: tuple[str, ...], change: Any) -> Any:
    head, *rest = path
    return {**tree, head: changed(tree[head], tuple(rest), change) if rest else change(tree[head])}


def logits(model: Decoder, params: Any, batch: Batch, knobs: Any = None) -> np.ndarray:
    return np.asarray(jax.jit(lambda p: model.apply(p, batch, knobs=knobs).logits)(params))


@every_part
def test_a_head_that_is_knocked_out_is_one_whose_rows_of_out_are_zero(name: str, part: Any):
    model, params, batch = made(name)
    layer, head = len(places(name, part)) - 1, 2
    path, entry = places(name, part)[layer]  # type: ignore[misc]
    index = (head,) if entry is None else (entry, head)
    zeroed = changed(params, (*path, "w"), lambda w: w.at[index].set(0.0))
    got = logits(model, params, batch, probe.without(model, params, batch, [(layer, head)], part=part, to="zero"))
    np.testing.assert_allclose(got, logits(model, zeroed, batch), atol=2e-5)
    assert np.abs(got - logits(model, params, batch)).max() > 1e-2


@every_part
def test_heads_times_their_rows_of_out_add_up_to_what_the_sublayer_says(name: str, part: Any):
    model, params, batch = made(name)
    what = "cross_output" if part == "cross" else "mixer_output"
    tree = model.apply(params, batch, capture=("head_outputs", "residual", what)).captured
    heads = probe.sown(tree, "head_outputs", part)
    said = probe.captured(tree.get("encoder") if part == "encoder" else tree, what)
    where = places(name, part)
    assert [one is None for one in heads] == [place is None for place in where]
    found = [(y, at(params, place[0]), place[1]) for y, place in zip(heads, where, strict=True) if place]
    for y_BNTW, out, entry in found:
        w_NWD, b_D = (leaf if entry is None else leaf[entry] for leaf in (out["w"], out["b"]))
        each = jnp.einsum("BNTW,NWD->NBTD", y_BNTW, w_NWD)
        np.testing.assert_allclose(each.sum(0) + b_D, said.pop(0), atol=1e-4)
    assert not said


@every_part
def test_gates_of_one_change_nothing(name: str, part: Any):
    model, params, batch = made(name)
    layers, *_ = probe.head_outputs(model, params, batch, part).shape
    knobs = probe.with_heads(model, {part: HeadEdit(jnp.ones((layers, 1, N)))})
    np.testing.assert_allclose(logits(model, params, batch, knobs), logits(model, params, batch), atol=1e-6)


@pytest.mark.parametrize("name", ["decoder", "latent", "encoder-decoder"])
def test_without_gates_the_program_is_as_if_there_were_none(name: str, monkeypatch: pytest.MonkeyPatch):
    model, params, batch = made(name)

    def program(knobs: Any = None) -> str:
        return jax.jit(lambda p: model.apply(p, batch, knobs=knobs).logits).lower(params).as_text()

    shipped = program()
    assert program(probe.with_heads(model, {"self": HeadEdit(jnp.ones((2, 1, N)))})) != shipped
    for home in ("txjax.nn.mixers.attention", "txjax.nn.mixers.latent", "txjax.nn.cross.attention"):
        monkeypatch.setattr(f"{home}.edited", lambda module, context, layer, y, part="self": y)
    assert program() == shipped


def test_knockout_is_the_loss_without_a_head_less_the_loss():
    model, params, batch = made("mixed")
    found = probe.knockout(model, params, batch)
    assert found.shape == (5, N) and not np.asarray(found[jnp.array([1, 3])]).any()  # layers that have no heads
    whole = mean_loss(model, params, batch, model.knobs())
    for layer, head in ((0, 1), (4, 3)):
        knobs = probe.without(model, params, batch, [(layer, head)], to="zero")
        np.testing.assert_allclose(found[layer, head], mean_loss(model, params, batch, knobs) - whole, atol=1e-5)


def test_the_mean_of_a_head_is_over_its_real_tokens():
    model, params, batch = made("decoder")
    batch = replace(batch, segments=jnp.asarray([[1] * T, [1, 1] + [0] * (T - 2)]))
    before = probe.head_outputs(model, params, batch)[0]
    knobs = probe.without(model, params, batch, [(0, 1)], to="mean")
    tree = model.apply(params, batch, knobs=knobs, capture=("head_outputs",)).captured
    after = probe.captured(tree, "head_outputs")[0]
    mean = jnp.concatenate([before[0, 1], before[1, 1, :2]]).mean(0)
    np.testing.assert_allclose(after[:, 1], np.broadcast_to(mean, after[:, 1].shape), atol=1e-5)
    np.testing.assert_allclose(after[:, 0], before[:, 0], atol=1e-5)


@pytest.mark.parametrize(("name", "part"), [("decoder", "self"), ("encoder-decoder", "cross")])
def test_a_patched_head_says_what_it_says_in_the_other_pass(name: str, part: Any):
    model, params, batch = made(name)
    other, head = batch_of(MODELS[name], seed=1), (0, 1)
    knobs = probe.patched(model, params, batch, other, [head], part=part)
    said = model.apply(params, batch, knobs=knobs, capture=("head_outputs",)).captured
    after = probe.captured(said, "head_outputs", part)[0]
    there, here = (probe.head_outputs(model, params, b, part)[0] for b in (other, batch))
    np.testing.assert_allclose(after[:, 1], there[:, 1], atol=1e-5)
    if part != "cross":  # whose queries have seen nothing else either, but after its own layer's mixer
        np.testing.assert_allclose(after[:, 0], here[:, 0], atol=1e-5)
    found = probe.patching(model, params, batch, other, part=part)
    want = mean_loss(model, params, batch, knobs) - mean_loss(model, params, batch, model.knobs())
    np.testing.assert_allclose(found[head], want, atol=1e-5)
    np.testing.assert_allclose(probe.patching(model, params, batch, batch, part=part), 0, atol=1e-5)


@pytest.mark.parametrize(("name", "part"), [("decoder", "self"), ("encoder-decoder", "cross"), ("latent", "self")])
def test_importance_is_the_mean_size_of_the_slope_over_rows(name: str, part: Any):
    model, params, batch = made(name)
    found = probe.importance(model, params, batch, part=part)
    losses = jax.jit(
        lambda gate: row_losses(
            model, params, batch, probe.with_heads(model, {part: HeadEdit(jnp.ones((2, 1, N)).at[1, 0, 2].set(gate))})
        )
    )
    slopes_B = (losses(1.05) - losses(0.95)) / 0.1
    np.testing.assert_allclose(found[1, 2], np.abs(slopes_B).mean(), rtol=2e-2)
    assert found.shape == (2, N)


def test_scores_of_hand_made_maps():
    period, length = 4, 12
    copies = jnp.eye(length)[jnp.maximum(jnp.arange(length) - period + 1, 0)]
    before = jnp.eye(length)[jnp.maximum(jnp.arange(length) - 1, 0)]
    even = jnp.tril(jnp.ones((length, length))) / jnp.arange(1, length + 1)[:, None]
    maps = jnp.stack([copies, before, even])
    np.testing.assert_allclose(probe.induction_score(maps, period), [1, 0, (1 / np.arange(5, 13)).mean()], rtol=1e-6)
    assert probe.previous_token_score(maps)[1] == 1
    np.testing.assert_allclose(probe.previous_token_score(even), (1 / np.arange(2, 13)).mean(), rtol=1e-6)


def test_tokens_repeat_after_a_period_of_different_ones():
    ids = jnp.arange(3, 11)
    rows = np.asarray(probe.repeated_tokens(ids, jax.random.key(0), rows=3, period=5))
    assert rows.shape == (3, 10) and (rows[:, :5] == rows[:, 5:]).all()
    assert all(len(set(row)) == 5 and set(row) <= set(range(3, 11)) for row in rows.tolist())
    assert len({tuple(row) for row in rows.tolist()}) == 3
    with pytest.raises(ValueError, match="8 ids are too few for a period of 9"):
        probe.repeated_tokens(ids, jax.random.key(0), rows=1, period=9)


def test_known_heads_are_scores_of_the_models_own_maps_without_the_id_before_them():
    model, params, _ = made("mixed")
    tokens = probe.repeated_tokens(jnp.arange(VOCAB - 1), jax.random.key(1), rows=2, period=4)
    for first in (None, VOCAB - 1):
        induction, previous = probe.known_heads(model, params, tokens, period=4, first=first)
        assert induction.shape == previous.shape == (5, N) and not np.asarray(induction[1]).any()
        skip = first is not None
        whole = jnp.concatenate([jnp.full((2, int(skip)), VOCAB - 1, jnp.int32), tokens], 1)
        maps = probe.attention_maps(model, params, Batch(tokens=whole))[..., int(skip) :, int(skip) :]
        np.testing.assert_allclose(induction[4], probe.induction_score(maps[2], 4).mean(0), atol=1e-6)
        np.testing.assert_allclose(previous[0], probe.previous_token_score(maps[0]).mean(0), atol=1e-6)


@pytest.mark.parametrize("implementation", ["recomputed", "xla", "blockwise"])
def test_weights_are_those_of_the_plain_path_whatever_trains(implementation: Any):
    config = MODELS["encoder-decoder"]
    _, params, batch = made("encoder-decoder")
    trees = [
        Decoder(replace(config, attention=replace(config.attention, implementation=kind))).apply(
            params, batch, capture=("attention_weights",)
        )
        for kind in ("plain", implementation)
    ]
    for part, shape in (("self", (2, N, T, T)), ("cross", (2, N, T, S)), ("encoder", (2, N, S, S))):
        want, got = (probe.captured(out.captured, "attention_weights", part) for out in trees)  # type: ignore[arg-type]
        assert [w.shape for w in got] == [shape] * (3 if part == "encoder" else 2)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), got, want)
        np.testing.assert_allclose(got[0].sum(-1), 1, atol=1e-5)


def test_a_recurrent_decoder_aligns_in_the_cross_layers_and_has_no_map_of_its_own():
    model = Decoder(presets.seq2seq(GRU(), width=16, num_layers=1, vocab_size=VOCAB))
    batch = batch_of(model.config)
    tree = model.apply(model.init(jax.random.key(0)), batch, capture=("attention_weights",)).captured
    assert probe.captured(tree, "attention_weights") == probe.captured(tree, "attention_weights", "encoder") == []
    assert [w.shape for w in probe.captured(tree, "attention_weights", "cross")] == [(2, 1, T, S)]
    with pytest.raises(ConfigError, match="part 'self' has heads of softmax attention"):
        probe.head_outputs(model, model.init(jax.random.key(0)), batch)
