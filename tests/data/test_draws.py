"""Random numbers by counter: the published stream, whichever numbers are asked for."""

from __future__ import annotations

import numpy as np
import pytest

from txjax.data.draws import BITS_OF_DRAWS, Draws, key_of


def test_the_stream_is_splitmix64():
    """The first outputs for seed 1234567 that Rosetta Code lists for this generator."""
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    draws = Draws(1234567, [0])
    assert [*draws.bits(2)[0].tolist(), *draws.bits(3)[0].tolist()] == wanted


def test_an_example_has_a_stream_of_its_own_that_does_not_depend_on_its_neighbours():
    together, numbers = Draws(7, [5, 0, 2**40 - 1, 5]), [5, 0, 2**40 - 1, 5]
    found = together.bits(4)
    for row, number in zip(found, numbers, strict=True):
        assert row.tolist() == Draws(7, [number]).bits(4)[0].tolist()
    assert len(np.unique(found)) == 12
    first, second = Draws(7, [0]).bits((1 << int(BITS_OF_DRAWS)) + 1)[0], Draws(7, [1]).bits(1)[0]
    assert first[-1] == second[0] and second[0] not in first[:-1]  # the next begins where the last one has to end


def test_keys_differ_with_each_of_their_numbers():
    seeds = (-1, 0, 1, 2**32, 2**33, 2**64 - 2)
    assert len({key_of(stream, seed) for stream in range(3) for seed in seeds}) == 18
    assert key_of(0, 1) == 5836529245451711556  # a change here changes every task's examples


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_numbers_below_a_limit_are_uniform(limit: int):
    found = Draws(0, range(100)).below(limit, 1000)
    counts = np.bincount(found.ravel(), minlength=limit)
    assert len(counts) == limit
    deviation = (counts - 1e5 / limit) / np.sqrt(1e5 / limit)
    assert np.abs(deviation).max() < 4.5


def test_each_place_may_have_a_limit_of_its_own():
    found = Draws(0, range(500)).below(np.array([1, 2, 50]), 3)
    assert found.max(0).tolist() == [0, 1, 49] and found.min() == 0


def test_uniform_numbers_lie_inside_the_unit_interval():
    found = Draws(3, range(100)).uniform(1000)
    assert 0 < found.min() < 1e-4 and 1 - 1e-4 < found.max() < 1
    np.testing.assert_allclose([found.mean(), found.var()], [1 / 2, 1 / 12], rtol=0.02)


@pytest.mark.parametrize(("limit", "count"), [(4, 4), (4, 2), (300, 3), (70_000, 2)])
def test_distinct_numbers_never_repeat_and_every_order_is_as_likely(limit: int, count: int):
    found = (
        Draws(1, range(24_000)).distinct(limit, count) if limit < 1000 else Draws(1, range(20)).distinct(limit, count)
    )
    assert found.min() >= 0 and found.max() < limit
    assert (np.diff(np.sort(found, 1)) > 0).all()
    if limit == 4:
        orders = np.unique(found, axis=0, return_counts=True)[1]
        cases = 24 if count == 4 else 12
        assert len(orders) == cases
        assert np.abs((orders - 24_000 / cases) / np.sqrt(24_000 / cases)).max() < 4.5
