"""Attention in all its implementations against plain NumPy, and what masks and half precision must not do to it."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import attend, quick

from txjax.config import Attention
from txjax.ops import Causal, Padding, SameSegment, Window, attention, masked_softmax
from txjax.ops.attention import IMPLEMENTATIONS
from txjax.ops.masks import ExplicitBias, Mask
from txjax.ops.positions import Alibi
from txjax.schema import ConfigError

CPU = tuple(name for name in IMPLEMENTATIONS if name != "cudnn")
MASKING = tuple(name for name in CPU if name != "xla")  # with softcap and dropout
B, N, K, T, H = 2, 4, 2, 7, 6


def arrays(*shapes: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> list[jax.Array]:
    random = np.random.default_rng(seed)
    return [jnp.asarray(random.standard_normal(shape), dtype) for shape in shapes]


q, k, v = arrays((B, N, T, H), (B, K, T, H), (B, K, T, H))
REAL = np.arange(T) < np.array([[T], [T - 3]])
BIAS = np.random.default_rng(1).standard_normal((1, N, T, T)).astype(np.float32)
TRIANGLE = np.tri(T, dtype=bool)[None, None]
NEAR = np.abs(np.subtract.outer(np.arange(T), np.arange(T))) < 3
SLOPES = np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None]


def run(implementation: str, *arrays: jax.Array, **how: Any) -> jax.Array:
    """The output, from one small program."""
    how = {"implementation": implementation, "block_size": 3, **how}
    return quick(lambda *qkv: attention(*qkv, **how)[0])(*arrays)


# arguments of ops.attention, and what they mean in NumPy
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "causal": ({"mask": Causal()}, {"visible": TRIANGLE}),
    "one array": ({"mask": jnp.asarray(TRIANGLE)}, {"visible": TRIANGLE}),
    "array a row": ({"mask": jnp.asarray(REAL[:, None, None] & TRIANGLE)}, {"visible": REAL[:, None, None] & TRIANGLE}),
    "array a head": ({"mask": jnp.asarray(BIAS > -1)}, {"visible": BIAS > -1}),
    "window without causal": ({"mask": Window(3)}, {"visible": NEAR}),
    "padded window": (
        {"mask": Causal() & Window(3) & Padding(jnp.asarray(REAL))},
        {"visible": TRIANGLE & NEAR & REAL[:, None, None]},
    ),
    "bias": ({"bias": jnp.asarray(BIAS)}, {"bias": BIAS}),
    "bias of one head": (
        {"bias": jnp.asarray(BIAS[0, :1]), "mask": Causal()},
        {"bias": BIAS[:, :1], "visible": TRIANGLE},
    ),
    "alibi": (
        {"bias": Alibi().bias(N, {}, causal=True), "mask": Causal()},
        {"bias": -SLOPES * np.abs(np.subtract.outer(np.arange(T), np.arange(T))), "visible": TRIANGLE},
    ),
}  # fmt: skip


@cache
def all_forms(implementation: str) -> dict[str, np.ndarray]:
    """One program for all of them."""

    def run(q: jax.Array, k: jax.Array, v: jax.Array) -> dict[str, jax.Array]:
        how: Any = {"scale": H**-0.5, "implementation": implementation, "block_size": 3}
        return {name: attention(q, k, v, **how, **form)[0] for name, (form, _) in FORMS.items()}

    return jax.device_get(quick(run)(q, k, v))


@pytest.mark.bug("jax-ml/jax#28974", "jax-ml/jax#39576", "jax-ml/jax#30593", "jax-ml/jax#27184", "jax-ml/jax#32242")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("implementation", CPU)
def test_every_implementation_takes_every_form_of_mask_and_bias(implementation: str, form: str):
    want, _ = attend(q, k, v, scale=H**-0.5, **FORMS[form][1])
    np.testing.assert_allclose(all_forms(implementation)[form], want, atol=2e-6)


@pytest.mark.bug("ekzhang/jax-js#180", "onnx/onnx#7274", "apple/axlearn#842", "HazyResearch/HipKittens#22")
@pytest.mark.parametrize("implementation", CPU)
def test_grouped_heads_are_heads_repeated_not_tiled(implementation: str):
    repeated, tiled = (
        run(implementation, q, f(k), f(v), scale=0.4)
        for f in (lambda x: jnp.repeat(x, 2, axis=1), lambda x: jnp.tile(x, (1, 2, 1, 1)))
    )
    grouped = run(implementation, q, k, v, scale=0.4)
    np.testing.assert_allclose(grouped, repeated, atol=1e-6)
    assert np.abs(grouped - tiled).max() > 0.1


@pytest.mark.claim("C03", "C04")
def test_weights_are_rows_that_sum_to_one_and_columns_that_need_not():
    _, weights = attention(q, k, v, scale=H**-0.5, mask=Causal())
    want = attend(q, k, v, scale=H**-0.5, visible=TRIANGLE)[1]
    np.testing.assert_allclose(weights, want, atol=1e-6)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert np.abs(weights.sum(-2) - 1).max() > 0.1
    assert weights.dtype == jnp.float32 and (np.asarray(weights)[..., ~TRIANGLE[0, 0]] == 0).all()


# Scale and softcap


@pytest.mark.parametrize("implementation", CPU)
def test_a_traced_scale_is_a_constant_one_and_none_is_one(implementation: str):
    traced = quick(lambda scale: attention(q, k, v, scale=scale, implementation=implementation)[0])
    for scale in (1.0, 0.37):
        want, _ = attend(q, k, v, scale=scale)
        np.testing.assert_allclose(run(implementation, q, k, v, scale=scale), want, atol=2e-6)
        np.testing.assert_allclose(traced(jnp.float32(scale)), want, atol=2e-6)


@pytest.mark.claim("C01", "C02")
def test_the_scores_variance_is_the_head_width_and_the_scale_takes_it_out():
    sharpest, even = [], []
    for width in (16, 256):
        q, k = arrays((64, 1, 8, width), (64, 1, 64, width), seed=width)
        products = np.einsum("bnth,bnsh->bnts", q, k)
        assert abs(products.var() / width - 1) < 0.1
        for scale, found in ((1.0, sharpest), (width**-0.5, even)):
            _, weights = attention(q, k, k, scale=scale)
            found.append(float(weights.max(-1).mean()))
    assert sharpest[0] > 0.5 and sharpest[1] > 0.8  # saturated, more so the wider the head
    assert max(even) < 0.2 and abs(even[0] - even[1]) < 0.02  # the same at every width


@pytest.mark.parametrize("implementation", MASKING)
def test_softcap_bounds_the_scores_before_the_bias(implementation: str):
    scores = {"scale": 3.0, "softcap": 2.0}
    out = run(implementation, q, k, v, **scores, bias=jnp.asarray(BIAS), mask=Causal())
    want, _ = attend(q, k, v, **scores, bias=BIAS, visible=TRIANGLE)
    np.testing.assert_allclose(out, want, atol=2e-6)
    assert np.abs(want - attend(q, k, v, scale=3.0, bias=BIAS, visible=TRIANGLE)[0]).max() > 0.1


# Keys and queries that do not start together


@pytest.mark.parametrize("implementation", CPU)
def test_queries_start_where_the_offset_says_in_each_row(implementation: str):
    new, offsets = q[:, :, :2], np.array([5, 3])
    how: Any = {"scale": 0.4, "mask": Causal(), "bias": Alibi().bias(N, {}, causal=True)}
    out = run(implementation, new, k, v, **how, offset=jnp.asarray(offsets))
    distance = (offsets[:, None] + np.arange(2))[..., None] - np.arange(T)
    want, _ = attend(new, k, v, scale=0.4, visible=(distance >= 0)[:, None], bias=-SLOPES * np.abs(distance)[:, None])
    np.testing.assert_allclose(out, want, atol=2e-6)


@pytest.mark.bug("pytorch/pytorch#107084")
@pytest.mark.parametrize("implementation", CPU)
def test_an_offset_counts_where_there_are_as_many_queries_as_keys(implementation: str):
    """As a cache may be just as long as the tokens that are read into its second half."""
    T = 130  # more than one block of any implementation
    q, k, v = (jax.random.normal(jax.random.key(i), (1, 1, T, 4)) for i in range(3))
    got, _ = attention(q, k, v, scale=0.5, mask=Causal(), offset=64, implementation=implementation)
    want, _ = attention(q, k, v, scale=0.5, mask=(64 + jnp.arange(T)[:, None] >= jnp.arange(T))[None, None])
    np.testing.assert_allclose(got, want, atol=1e-5)  # float32 sums of 130 in another order


@pytest.mark.parametrize("implementation", CPU)
def test_a_bias_without_a_zero_is_added_in_whole_and_cached_passes(implementation: str):
    assert (BIAS != 0).all()
    want, _ = attend(q, k, v, scale=0.4, bias=BIAS, visible=TRIANGLE)
    # whole, then two queries in the middle: with a bias of their own rows, and with one that knows where they are
    for part, bias in (
        (slice(T), jnp.asarray(BIAS)),
        (slice(3, 5), jnp.asarray(BIAS[:, :, 3:5])),
        (slice(3, 5), ExplicitBias(jnp.asarray(BIAS))),
    ):
        how: Any = {"scale": 0.4, "bias": bias, "mask": Causal(), "offset": part.start or 0}
        got = run(implementation, q[:, :, part], k, v, **how)
        np.testing.assert_allclose(got, want[:, :, part], atol=2e-6)


@pytest.mark.parametrize("implementation", CPU)
def test_the_rows_of_a_mask_array_are_the_queries_of_the_call(implementation: str):
    rows = np.random.default_rng(7).random((B, 1, 2, T)) > 0.4
    want, _ = attend(q[:, :, 1:3], k, v, scale=0.4, visible=rows)
    for offset in (None, 1, jnp.array([1, 4])):
        got = run(implementation, q[:, :, 1:3], k, v, scale=0.4, mask=jnp.asarray(rows), offset=offset)
        np.testing.assert_allclose(got, want, atol=2e-6)


# Queries without keys, and half precision


@pytest.mark.bug("pytorch/pytorch#41508", "pytorch/pytorch#42323", "pytorch/pytorch#189045", "pytorch/pytorch#196170")
@pytest.mark.parametrize("implementation", CPU)
@pytest.mark.claim("C03")
def test_a_query_without_keys_gives_zeros_and_leaves_all_gradients_as_they_were(implementation: str):
    length = 4
    x, w = arrays((2, length, H), (3, H, H), seed=2)
    real = np.ones((2, length), bool)
    real[1, :2] = False  # behind a window of 2, queries 0 and 1 of this row see nothing

    def loss(w: jax.Array, x: jax.Array, real: np.ndarray) -> tuple[jax.Array, jax.Array]:
        q, k, v = jnp.einsum("btd,xdh->xbth", x, w)[:, :, None]
        mask = Causal() & Window(2) & Padding(jnp.asarray(real))
        out, _ = attention(q, k, v, scale=0.5, mask=mask, implementation=implementation, block_size=2)
        return ((out * real[:, None, :, None]) ** 2).sum(), out

    run = quick(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    (_, out), (to_w, to_x) = run(w, x, real)
    assert (np.asarray(out)[1, 0, :2] == 0).all() and (np.asarray(to_x)[1, :2] == 0).all()
    alone = [run(w, part, np.ones(part.shape[:2], bool))[1][0] for part in (x[:1], x[1:, 2:])]
    want = alone[0] + alone[1]  # its terms are up to 48: a difference of two of them has their rounding, not its own
    np.testing.assert_allclose(to_w, want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.bug("NVIDIA-NeMo/Automodel#2658", "huggingface/transformers#17306", "EleutherAI/gpt-neox#25")
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("implementation", MASKING)
def test_masks_that_hide_the_same_key_overflow_in_no_half_precision(implementation: str, dtype: Any):
    segments = jnp.asarray(np.where(REAL, np.arange(T) // 3 + 1, 0))
    mask = Causal() & Padding(jnp.asarray(REAL)) & SameSegment(segments) & Window(2)

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        out, _ = attention(q, k, v, scale=0.4, mask=mask, implementation=implementation, block_size=3)
        return (out.astype(jnp.float32) ** 2).sum(), out

    run = quick(jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True))
    narrow = [x.astype(dtype) for x in (q, k, v)]
    (_, half), half_gradients = run(*narrow)
    (_, full), full_gradients = run(*(x.astype(jnp.float32) for x in narrow))
    assert half.dtype == dtype
    for got, want in zip((half, *half_gradients), (full, *full_gradients), strict=True):
        tolerance = 5e-2 if dtype == jnp.bfloat16 else 5e-3  # several roundings, of 4e-3 and 5e-4 each
        np.testing.assert_allclose(got.astype(jnp.float32), want, atol=tolerance * float(jnp.abs(want).max()))


@pytest.mark.bug("jax-ml/jax#17070", "jax-ml/jax#3058")
def test_a_masked_softmax_has_gradient_zero_where_nothing_is_visible():
    scores = jnp.array([[1.0, 2.0, 3.0], [jnp.inf, jnp.nan, -jnp.inf], [1e30, -1e30, 5.0]])
    visible = jnp.array([[True, True, False], [False, False, False], [False, True, True]])
    weights, gradient = quick(jax.value_and_grad(lambda s: (masked_softmax(s, visible) ** 2).sum()))(scores)
    assert np.isfinite(weights)
    assert np.isfinite(gradient).all() and (np.asarray(gradient)[~visible] == 0).all()
    np.testing.assert_allclose(masked_softmax(scores, visible)[1:], [[0, 0, 0], [0, 0, 1]])


# Blockwise


def gradients_of(implementation: str, block: int, length: int, mask: Mask | None, **more: Any) -> Any:
    q, k, v, dy = arrays((B, N, 5, H), (B, K, length, H), (B, K, length, H), (B, N, 5, H), seed=3)

    def out(q: jax.Array, k: jax.Array, v: jax.Array, bias: jax.Array) -> jax.Array:
        how: Any = {"implementation": implementation, "block_size": block, **more}
        return attention(q, k, v, scale=0.5, mask=mask, bias=bias, **how)[0]

    def all_of_it(dy: jax.Array, *arguments: jax.Array) -> Any:
        y, back = jax.vjp(out, *arguments)
        return y, *back(dy)

    return quick(all_of_it)(dy, q, k, v, *arrays((1, N, 5, length), seed=4))


@pytest.mark.parametrize(
    ("implementation", "block", "length"),
    [("blockwise", 2, 5), ("blockwise", 4, 11), ("blockwise", 64, 6)]
    + [(name, 3, 11) for name in MASKING if name not in ("plain", "blockwise")],
)
def test_gradients_are_those_of_plain_for_blocks_of_any_size(implementation: str, block: int, length: int):
    real = np.arange(length) < np.array([[length], [length - 2]])
    mask = Causal() & Padding(jnp.asarray(real)) & Window(4)
    want_all, got_all = (gradients_of(name, block, length, mask, softcap=3.0) for name in ("plain", implementation))
    for got, want in zip(got_all, want_all, strict=True):
        assert np.abs(want).max() > 0.01
        np.testing.assert_allclose(got, want, atol=3e-6)


@pytest.mark.bug("jax-ml/jax#27184", "jax-ml/jax#32242", "jax-ml/jax#30593")
@pytest.mark.parametrize("implementation", [name for name in CPU if name != "plain"])
def test_a_learned_bias_has_its_gradient_summed_over_the_batch(implementation: str):
    want, got = (gradients_of(name, 2, 5, Causal())[-1] for name in ("plain", implementation))
    assert got.shape == (1, N, 5, 5)
    np.testing.assert_allclose(got, want, atol=3e-6)
    assert (np.abs(np.asarray(got)[0][:, np.tri(5, dtype=bool)]).max(-1) > 0.01).all()


def test_the_memory_of_blockwise_grows_with_the_length_and_that_of_plain_with_its_square():
    def working_memory(implementation: str, length: int) -> int:
        def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
            how: Any = {"mask": Causal(), "implementation": implementation, "block_size": 32}
            return (attention(q, k, v, scale=0.5, **how)[0] ** 2).sum()

        x = jax.ShapeDtypeStruct((1, 1, length, 16), jnp.float32)
        analysis = quick(jax.grad(loss, argnums=(0, 1, 2))).lower(x, x, x).compile().memory_analysis()
        return analysis.temp_size_in_bytes

    blocks = [working_memory("blockwise", length) for length in (512, 2048)]
    assert blocks[1] <= 4 * blocks[0]
    assert working_memory("plain", 2048) > 4 * blocks[1]


# Dropout, and refusals


@pytest.mark.parametrize("implementation", MASKING)
def test_dropout_of_weights_keeps_their_expectation(implementation: str):
    @quick
    def run(key: jax.Array, rate: Any = 0.4) -> jax.Array:
        how: Any = {"dropout": (key, rate), "implementation": implementation, "block_size": 4, "mask": Causal()}
        return attention(q, k, v, scale=0.4, **how)[0]

    keys = jax.random.split(jax.random.key(0), 2000)
    many = np.asarray(jax.vmap(run)(keys))
    want, _ = attend(q, k, v, scale=0.4, visible=TRIANGLE)
    error = many.std(0) / 2000**0.5
    assert (np.abs(many.mean(0) - want) <= 5 * error + 1e-6).all() and (error[..., 1:, :] > 0).all()
    np.testing.assert_allclose(run(keys[0], 0.0), want, atol=2e-6)  # the rate is traced
    np.testing.assert_allclose(run(keys[0], 0.4), run(keys[0]), atol=1e-6)  # and here a constant


def test_what_cannot_be_served_is_refused():
    with pytest.raises(ValueError, match="do not fit"):
        attention(q[:, :3], k, v, scale=1.0)
    with pytest.raises(ValueError, match=r"must be one of plain, .*blockwise.* got 'flash'"):
        attention(q, k, v, scale=1.0, implementation="flash")
    with pytest.raises(ConfigError, match="softcap"):
        attention(q, k, v, scale=1.0, softcap=5.0, implementation="xla")
    with pytest.raises(ConfigError, match="drops no attention weights"):
        attention(q, k, v, scale=1.0, dropout=(jax.random.key(0), 0.1), implementation="xla")
    with pytest.raises(ConfigError, match="NVIDIA"):
        attention(q, k, v, scale=1.0, implementation="cudnn")


def test_the_schema_offers_the_implementations_that_there_are():
    for name in IMPLEMENTATIONS:
        assert Attention(implementation=name).implementation == name


# Identities


@pytest.mark.claim("C05", "E12")
def test_attention_is_permutation_equivariant_without_a_mask_and_not_with_a_causal_one():
    order = np.random.default_rng(5).permutation(T)
    for mask, equivariant in ((None, True), (Causal(), False)):
        straight, _ = attention(q, k, v, scale=0.5, mask=mask)
        shuffled, _ = attention(q[:, :, order], k[:, :, order], v[:, :, order], scale=0.5, mask=mask)
        assert np.allclose(straight[:, :, order], shuffled, atol=1e-6) is equivariant


@pytest.mark.claim("C04")
def test_no_output_depends_on_a_later_token():
    def out(x: jax.Array) -> jax.Array:
        return attention(x, x, x, scale=0.5, mask=Causal())[0][0, 0]

    jacobian = np.abs(quick(jax.jacobian(out))(q[:1, :1])[:, :, 0, 0]).sum((1, 3))
    assert (jacobian[np.triu_indices(T, 1)] == 0).all() and (jacobian[np.tril_indices(T)] > 0).all()


@pytest.mark.claim("C13")
def test_scores_see_queries_and_keys_through_their_product_alone():
    x, w_q, w_k, m = arrays((1, 1, T, H), (H, H), (H, H), (H, H), seed=6)
    m = m + 3 * jnp.eye(H)  # far from singular
    _, weights = attention(x @ w_q, x @ w_k, x, scale=0.1)
    _, changed = attention(x @ w_q @ m, x @ (w_k @ jnp.linalg.inv(m).T), x, scale=0.1)
    np.testing.assert_allclose(weights, changed, atol=1e-5)
