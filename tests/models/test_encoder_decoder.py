"""A decoder over an encoder: what it keeps whatever reads the encoder, attention or a recurrent net's alignment."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import compiled

from txjax.batch import Batch
from txjax.config import Attention, Config, Cross, Encoder, Layer, Mesh, Model, Train
from txjax.models import Decoder, presets
from txjax.models.costs import count_parameters, training_inputs
from txjax.nn.cross.alignment import Alignment
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.heads.tied import Tied
from txjax.nn.initialisations import Normal
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.lstm import LSTM
from txjax.ops.attention import alignment
from txjax.ops.masks import Padding
from txjax.ops.norms import RMSNorm
from txjax.ops.positions import Relative, Sinusoidal
from txjax.ops.recurrence import gru_search
from txjax.parallel import make_layout
from txjax.schema import ConfigError
from txjax.train.programs import Programs

VOCAB, SOURCE, LENGTH = 40, 7, 6
SIZES: dict[str, Any] = {"width": 32, "num_layers": 2, "vocab_size": VOCAB}
TRANSFORMER = Model(encoder=Encoder(num_layers=3), context=16, **SIZES)
SEQ2SEQ = presets.seq2seq(GRU(), **SIZES)
MODELS = {
    "transformer": TRANSFORMER,
    "post-norm": replace(
        TRANSFORMER,
        norm_placement="post",
        position=Sinusoidal(),
        embedding=Tokens(scale="sqrt_width"),
        encoder=Encoder(num_layers=1, embedding="own", vocab_size=VOCAB + 3),
    ),
    "t5": replace(
        TRANSFORMER, position=Relative(8, 20), norm=RMSNorm(), attention=Attention(scale="none", num_kv_heads=2)
    ),
    "mixed layers": replace(TRANSFORMER, pattern=(Layer(), Layer(cross="none"))),  # type: ignore[arg-type]
    "bottleneck": replace(SEQ2SEQ, cross="none"),
    "rnnsearch": presets.rnnsearch(**SIZES),
    "lstm": presets.seq2seq(LSTM(), **SIZES),
    **{f"cross={kind}": replace(SEQ2SEQ, cross=member()) for kind, member in Cross.members().items() if kind != "none"},
    **{f"score={score}": replace(SEQ2SEQ, cross=Alignment(score)) for score in ("dot", "general")},  # type: ignore[arg-type]
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)

draw = np.random.default_rng(0)
TOKENS = jnp.asarray(draw.integers(0, VOCAB, (2, LENGTH)), jnp.int32)
SOURCES = jnp.asarray(draw.permutation(VOCAB)[: 2 * SOURCE].reshape(2, SOURCE), jnp.int32)
REAL = jnp.arange(SOURCE) < jnp.array([[SOURCE], [SOURCE - 2]])  # the second source ends earlier
BATCH = Batch(tokens=TOKENS, source=SOURCES, source_segments=REAL.astype(jnp.int32))


@cache
def parameters(model: Model) -> Any:
    """Larger than at the start, biases too, so that differences show."""
    leaves, tree = jax.tree.flatten(Decoder(model).init(jax.random.key(0)))
    noise = (0.2 * np.random.default_rng(i).standard_normal(leaf.shape) for i, leaf in enumerate(leaves))
    return jax.tree.unflatten(tree, [leaf + n.astype(np.float32) for leaf, n in zip(leaves, noise, strict=True)])


programs: dict[Any, Any] = {}


def run(model: Model, batch: Batch) -> np.ndarray:
    """Logits, by a program that is compiled once for a shape."""
    decoder, key = Decoder(model), (model, jax.tree.structure(batch), *map(np.shape, jax.tree.leaves(batch)))
    if key not in programs:
        programs[key] = compiled(lambda params, batch: decoder.apply(params, batch).logits, parameters(model), batch)
    return np.asarray(programs[key](parameters(model), batch))


@cache
def logits(model: Model) -> np.ndarray:
    return run(model, BATCH)


@cache
def prefilled(model: Model) -> tuple[Any, Any, Any]:
    """Logits and cache after three tokens, and the program of a step."""
    decoder, prompt = Decoder(model), replace(BATCH, tokens=TOKENS[:, :3])
    read = compiled(lambda params, batch: decoder.prefill(params, batch, LENGTH), parameters(model), prompt)
    first, cache = read(parameters(model), prompt)
    return first, cache, compiled(decoder.step, parameters(model), TOKENS[:, 0], cache)


@pytest.mark.bug("huggingface/transformers#47946", "T040")
@pytest.mark.bug("huggingface/candle#899", "T112")
@every_model
def test_cached_decoding_has_the_logits_of_the_full_pass(model: Model):
    got, cache, step = prefilled(model)
    steps = [got]
    for place in range(3, LENGTH):
        got, cache = step(parameters(model), TOKENS[:, place], cache)
        steps.append(got)
    np.testing.assert_allclose(np.stack(steps, 1), logits(model)[:, 2:], atol=2e-5 * np.abs(logits(model)).max())


@every_model
def test_rows_of_a_cache_go_on_as_those_texts_would(model: Model):
    _, cache, step = prefilled(model)
    rows = jnp.array([1, 0])
    got, cache = step(parameters(model), TOKENS[rows, 3], Decoder(model).rows(cache, rows))
    both = Decoder(model).rows(cache, jnp.array([1, 1]))
    again, _ = step(parameters(model), TOKENS[jnp.array([0, 0]), 4], both)
    np.testing.assert_allclose(got, logits(model)[rows, 3], atol=2e-5 * np.abs(logits(model)).max())
    np.testing.assert_allclose(again, logits(model)[[0, 0], 4], atol=2e-5 * np.abs(logits(model)).max())


@pytest.mark.bug("keras-team/keras-io#1046", "T040")
@every_model
def test_what_lies_after_the_end_of_a_source_is_never_read(model: Model):
    other = replace(BATCH, source=jnp.where(REAL, SOURCES, 3))
    np.testing.assert_array_equal(run(model, other), logits(model))
    short = replace(BATCH, source=SOURCES[:, : SOURCE - 2], source_segments=REAL[:, : SOURCE - 2].astype(jnp.int32))
    np.testing.assert_allclose(run(model, short)[1], logits(model)[1], atol=2e-5 * np.abs(logits(model)).max())


@every_model
def test_every_token_depends_on_the_whole_source_and_on_no_later_token(model: Model):
    for place in range(SOURCE):
        changed = replace(BATCH, source=SOURCES.at[0, place].set(SOURCES[1, 0]))
        moved = np.abs(run(model, changed) - logits(model)).max(-1)
        assert (moved[0] > 1e-6).all()
        assert (moved[1] == 0).all()
    later = replace(BATCH, tokens=TOKENS.at[:, 3:].set(5))
    np.testing.assert_array_equal(run(model, later)[:, :3], logits(model)[:, :3])


@pytest.mark.parametrize("name", ["transformer", "lstm"])
@pytest.mark.parametrize("layout", [{"unroll": "all", "remat": "none"}, {"remat": "full"}], ids=str)
def test_layouts_of_the_program_change_no_value(name: str, layout: dict[str, Any]):
    model = MODELS[name]
    got = run(replace(model, **layout), BATCH)
    np.testing.assert_allclose(got, logits(model), atol=2e-5 * np.abs(logits(model)).max())


@pytest.mark.long
@pytest.mark.parametrize("name", ["t5", "rnnsearch"])
def test_eight_devices_compute_what_one_does(name: str):
    model, rows = MODELS[name], 8
    batch = jax.tree.map(lambda x: np.tile(np.asarray(x), (rows // 2, 1)), replace(BATCH, targets=TOKENS))
    losses = []
    for mesh in (Mesh(data=1), Mesh(data=2, fsdp=2, tensor=2)):
        config = Config(model=replace(model, dropout=0.1), train=Train(steps=2, batch_size=rows), mesh=mesh)
        layout = make_layout(mesh, jax.devices()[:1] if mesh.data == 1 else None)
        with layout.scope():
            programs = Programs(config, Decoder(config.model), layout)
            state = programs.initial_state()
            step, _ = programs.compile_train_step(batch)
            for _ in range(2):
                state, metrics = step(state, programs.to_devices(batch), programs.hyper)
            losses.append(float(metrics.loss))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_models_without_and_with_encoder_share_what_both_have():
    alone = Decoder(replace(TRANSFORMER, encoder=None)).init(jax.random.key(1))
    over = Decoder(TRANSFORMER).init(jax.random.key(1))
    own = jax.tree_util.tree_leaves_with_path(alone)
    for path, leaf in own:
        there = over
        for part in path:
            there = there[part.key]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(leaf, there)
    assert set(over) - set(alone) == {"encoder"}


def test_layers_of_encoder_and_decoder_are_drawn_apart():
    params = Decoder(TRANSFORMER).init(jax.random.key(1))
    queries = [params[side]["layers"]["block_0"]["attention"]["query"]["w"] for side in ("encoder",)]
    queries.append(params["layers"]["block_0"]["attention"]["query"]["w"])
    assert np.abs(queries[0][:2] - queries[1][:2]).min(axis=(1, 2, 3)).max() > 0
    deeper = Decoder(replace(TRANSFORMER, encoder=Encoder(num_layers=5))).init(jax.random.key(1))
    np.testing.assert_array_equal(deeper["encoder"]["layers"]["block_0"]["attention"]["query"]["w"][:3], queries[0])


@pytest.mark.bug("ml-explore/mlx-examples#591", "T073")
@pytest.mark.bug("jadore801120/attention-is-all-you-need-pytorch#138", "T073")
def test_scales_of_a_shared_table_are_where_the_config_says_and_nowhere_else():
    """On the way in times sqrt(D), on the way out divided by it; each alone, whatever the other."""
    D, params = SIZES["width"], parameters(TRANSFORMER)
    hidden = jnp.asarray(draw.standard_normal((2, D)), jnp.float32)
    for into in ("none", "sqrt_width"):
        for out in ("none", "rsqrt_width"):
            model = replace(TRANSFORMER, embedding=Tokens(scale=into), head=Tied(scale=out), position="none")
            decoder = Decoder(model)
            embedded = decoder.apply(params, BATCH, capture=("embedded",)).captured["embedded"][0]
            table = params["embedding"]["w"]
            wide = D**0.5 if into == "sqrt_width" else 1.0
            np.testing.assert_allclose(embedded, wide * table[TOKENS], rtol=1e-6)
            np.testing.assert_allclose(
                decoder.unembed(params, hidden),
                hidden @ table.T / (D**0.5 if out != "none" else 1.0),
                rtol=2e-5,
                atol=1e-5,
            )
    start = Decoder(replace(TRANSFORMER, head=Tied(scale="rsqrt_width"), init=Normal(embedding_std=1.0)))
    logits_at_start = start.unembed(start.init(jax.random.key(0)), jax.random.normal(jax.random.key(1), (64, D)))
    assert np.std(logits_at_start) == pytest.approx(1.0, rel=0.1)  # T5: unit states and a unit table give unit logits


def test_the_alignment_is_that_of_its_formula():
    q, k, v, w = (draw.standard_normal(shape) for shape in ((2, 3, 4), (2, 5, 4), (2, 5, 4), (4,)))
    for towards in (w, None):
        got, weights = alignment(
            *map(jnp.asarray, (q, k, v)), None if towards is None else jnp.asarray(towards), mask=None
        )
        scores = np.einsum("btd,bsd->bts", q, k)
        if towards is not None:
            scores = (np.tanh(q[:, :, None] + k[:, None]) * towards).sum(-1)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        want = e / e.sum(-1, keepdims=True)
        np.testing.assert_allclose(weights, want, atol=1e-6)
        np.testing.assert_allclose(got, want @ v, atol=1e-5)


def test_a_search_scores_by_the_state_before_and_feeds_what_it_finds_to_the_gates():
    B, T, S, D, H = 2, 4, 5, 3, 6
    shapes = ((B, T, 3, H), (B, H), (H, 4, H), (H,), (D, 3, H), (B, S, H), (B, S, D), (H,))
    x, h, w, b, found, keys, values, v = (draw.standard_normal(shape) for shape in shapes)
    here, real = np.arange(S) < np.array([[S], [3]]), np.arange(T) < np.array([[T], [2]])
    got = gru_search(
        *map(jnp.asarray, (x, h, w, b, found, keys, values, v)),
        mask=Padding(jnp.asarray(here)),
        real_BT=jnp.asarray(real),
    )
    for t in range(T):
        scores = np.where(here, np.tanh((h @ w[:, 3])[:, None] + keys) @ v, -np.inf)
        a = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        c = (a[..., None] * values).sum(1)
        of_x, of_h = x[:, t] + np.einsum("bd,dgh->bgh", c, found), np.einsum("bh,hgk->bgk", h, w[:, :3])
        r, z = (1 / (1 + np.exp(-(of_x[:, gate] + of_h[:, gate]))) for gate in (0, 1))
        after = (1 - z) * np.tanh(of_x[:, 2] + r * (of_h[:, 2] + b)) + z * h
        h = np.where(real[:, t, None], after, h)
        for theirs, ours in zip((h, c, a), got, strict=False):
            np.testing.assert_allclose(ours[:, t], theirs, atol=1e-5)  # float32 against float64, four steps on
    np.testing.assert_allclose(got[-1], h, atol=1e-5)


@pytest.mark.parametrize(
    "name, count",
    # Vaswani et al. 2017, table 3, at a joint vocabulary of 37,000; T5: the published checkpoints
    [("transformer-base", 63_045_632), ("transformer-big", 214_171_648), ("t5-small", 60_506_624)],
)
def test_published_sizes_have_their_exact_counts(name: str, count: int):
    assert count_parameters(Decoder(presets.named(name)).shapes()) == count


def test_a_model_says_what_it_reads():
    inputs = training_inputs(Decoder(TRANSFORMER), 3, 8)
    assert (inputs.tokens.shape, inputs.source.shape, inputs.targets.shape) == ((3, 8), (3, 8), (3, 8))
    with pytest.raises(ConfigError, match=r"needs batch.source, what its encoder reads"):
        Decoder(TRANSFORMER).apply(parameters(TRANSFORMER), Batch(tokens=TOKENS))
    alone = replace(TRANSFORMER, encoder=None)
    with pytest.raises(ConfigError, match=r"encoder=none needs no batch.source"):
        Decoder(alone).apply(Decoder(alone).init(jax.random.key(0)), BATCH)


def test_what_an_encoder_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="encoder: num_layers must be at least 1, got 0"):
        replace(TRANSFORMER, encoder=Encoder(num_layers=0))
    with pytest.raises(ConfigError, match="vocab_size=9 is that of an embedding of its own: set embedding=own"):
        Encoder(vocab_size=9)
    with pytest.raises(ConfigError, match="encoder: vocab_size must be positive, got 0"):
        replace(TRANSFORMER, encoder=Encoder(embedding="own", vocab_size=0))
    with pytest.raises(ConfigError, match=r"encoder.bridge=states needs the same recurrent layers"):
        replace(TRANSFORMER, encoder=Encoder(num_layers=2, bridge="states"))
    with pytest.raises(ConfigError, match=r"encoder.bridge=states needs the same recurrent layers"):
        replace(SEQ2SEQ, encoder=Encoder(num_layers=3, causal=True, bridge="states"))
