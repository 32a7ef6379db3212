"""Where order enters: ALiBi's slopes, sines and cosines, the learned table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.ops.positions import (
    Alibi,
    Learned,
    NoPosition,
    Relative,
    Sinusoidal,
    alibi_slopes,
    relative_bucket,
    sinusoidal_code,
)
from txjax.schema import ConfigError

# ALiBi


@pytest.mark.bug("paiml/aprender#2143")
def test_slopes_of_a_power_of_two_start_at_its_root_and_end_at_one_256th():
    assert alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(1) == [1 / 256]
    np.testing.assert_allclose(alibi_slopes(16), 2 ** (-np.arange(1, 17) / 2), rtol=1e-12)


@pytest.mark.parametrize(
    ("heads", "slopes"),
    [
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]),
        (12, [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]),
    ],
)
def test_other_counts_borrow_every_second_slope_of_the_next_power(heads: int, slopes: list[float]):
    np.testing.assert_allclose(alibi_slopes(heads), slopes, rtol=1e-12)


def test_the_bias_falls_with_the_distance_from_each_rows_own_query():
    bias = Alibi().bias(2, {}, causal=True)(jnp.array([[3], [1]]), jnp.arange(5))
    distance = np.array([[3, 2, 1, 0, 1], [1, 0, 1, 2, 3]])
    np.testing.assert_allclose(bias[:, :, 0], -np.array([[2**-4], [2**-8]]) * distance[:, None])


# Sinusoidal


def test_the_code_of_a_position_is_the_same_alone_and_in_a_batch():
    table = sinusoidal_code(jnp.arange(50), 16, base=10_000.0, pairs="interleaved")
    rows = jnp.array([[7, 8, 0], [49, 3, 3]])
    np.testing.assert_array_equal(sinusoidal_code(rows, 16, base=10_000.0, pairs="interleaved"), table[rows])
    x = jnp.ones((2, 3, 16), jnp.bfloat16)
    embedded = Sinusoidal().embed(x, rows, {})
    assert embedded.dtype == jnp.bfloat16
    np.testing.assert_allclose(embedded.astype(jnp.float32) - 1, table[rows], atol=2e-2)


@pytest.mark.bug("BrianPulfer/PapersReimplementations#9")
def test_sine_and_cosine_of_a_pair_turn_together():
    code = np.asarray(sinusoidal_code(jnp.arange(300), 64, base=10_000.0, pairs="interleaved"), np.float64)
    np.testing.assert_allclose(code[:, 0::2] ** 2 + code[:, 1::2] ** 2, 1, atol=1e-6)
    frequency = np.unwrap(np.arctan2(code[:, 0::2], code[:, 1::2]), axis=0)[-1] / 299
    np.testing.assert_allclose(frequency, 10_000.0 ** (-np.arange(32) / 32), rtol=1e-4)


def test_half_has_all_sines_before_all_cosines():
    rows = jnp.array([[7, 8, 0], [49, 3, 3]])
    halves = sinusoidal_code(rows, 16, base=10_000.0, pairs="half")
    interleaved = sinusoidal_code(rows, 16, base=10_000.0, pairs="interleaved")
    np.testing.assert_array_equal(halves, jnp.concatenate([interleaved[..., 0::2], interleaved[..., 1::2]], -1))
    embedded = Sinusoidal(pairs="half").embed(jnp.zeros((2, 3, 16)), rows, {})
    np.testing.assert_array_equal(embedded, halves)


@pytest.mark.claim("C06", "C07")
def test_an_offset_is_one_rotation_and_one_inner_product_wherever_it_starts():
    width, k = 128, 37
    code = np.asarray(sinusoidal_code(jnp.arange(600), width, base=10_000.0, pairs="interleaved"), np.float64)
    rotation = np.zeros((width, width))
    for pair in range(0, width, 2):
        a = k * 10_000 ** (-pair / width)
        rotation[pair : pair + 2, pair : pair + 2] = [[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]]
    # float32 angles of up to 600 are off by 3e-5
    np.testing.assert_allclose(code[k:], code[:-k] @ rotation.T, atol=1e-4)
    products = (code[k:] * code[:-k]).sum(1)
    np.testing.assert_allclose(products, np.cos(k * 10_000.0 ** (-np.arange(0, width, 2) / width)).sum(), atol=1e-3)
    np.testing.assert_allclose((code**2).sum(1), width / 2, rtol=1e-6)


@pytest.mark.claim("C08")
def test_every_position_has_a_code_of_its_own():
    code = np.asarray(sinusoidal_code(jnp.arange(20_000), 64, base=10_000.0, pairs="interleaved"))
    assert len(np.unique(code, axis=0)) == 20_000


# The others


def test_a_learned_table_is_read_at_the_positions():
    table = jnp.asarray(np.random.default_rng(0).standard_normal((6, 4)), jnp.float32)
    x, positions = jnp.ones((2, 3, 4)), jnp.array([[0, 1, 5], [2, 0, 1]])
    assert Learned().tables(context=6, width=4, num_heads=2) == {"table": ((6, 4), ("context", "embed"))}
    assert Learned.bounded
    np.testing.assert_allclose(Learned().embed(x, positions, {"table": table}), 1 + table[positions], rtol=1e-6)


def test_no_positions_are_none():
    x = jnp.ones((1, 2, 4))
    none = NoPosition()
    np.testing.assert_array_equal(none.embed(x, jnp.arange(2)[None], {}), x)
    assert none.angles(jnp.arange(2)[None], 4) is None and none.bias(3, {}, causal=True) is None


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="even width, got width=7"):
        Sinusoidal().validate(head_dim=7, width=7, num_heads=1)


def test_positions_add_no_gradient_path_of_their_own():
    back = jax.grad(lambda x: Sinusoidal().embed(x, jnp.arange(3)[None], {}).sum())(jnp.ones((1, 3, 4)))
    np.testing.assert_array_equal(back, 1)


@pytest.mark.bug("huggingface/transformers#8518", "T112")
@pytest.mark.bug("lucidrains/x-transformers#10", "T112")
def test_relative_buckets_are_the_published_ones():
    """T5's 32 buckets up to a distance of 128: rows are queries, columns keys."""
    distance_TS = jnp.arange(10) - jnp.arange(10)[:, None]
    both = relative_bucket(distance_TS, buckets=32, max_distance=128, both_sides=True)
    assert both[0].tolist() == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]
    assert both[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]
    one = relative_bucket(distance_TS, buckets=32, max_distance=128, both_sides=False)
    assert one[0].tolist() == [0] * 10  # keys after the query
    assert one[:, 0].tolist() == list(range(10))
    far = relative_bucket(-jnp.array([15, 16, 20, 127, 128, 1000]), buckets=32, max_distance=128, both_sides=False)
    assert far.tolist() == [15, 16, 17, 31, 31, 31]


def test_a_relative_bias_is_the_table_of_its_bucket_and_moves_with_the_query():
    table_RN = jnp.asarray(np.random.default_rng(0).standard_normal((8, 2)), jnp.float32)
    bias = Relative(8, 20).bias(2, {"bias": table_RN}, causal=True)
    whole = bias(jnp.arange(9)[None], jnp.arange(9))
    assert whole.shape == (1, 2, 9, 9)
    np.testing.assert_array_equal(whole[0, :, 5, 4], table_RN[1])
    np.testing.assert_array_equal(bias(jnp.array([[7]]), jnp.arange(9)), whole[:, :, 7:8])
