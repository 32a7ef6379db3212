"""The mean of the last checkpoints: which they are, and the value."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from txjax.config import Config, Train
from txjax.schema import ConfigError
from txjax.store import Run
from txjax.store.averaging import average, last_steps
from txjax.store.checkpoints import Checkpoints

VALUES = {10: 5.0, 20: 7.0, 30: 1e8, 40: 1.0, 50: -1e8}  # a sum in float32 loses the one


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A run that keeps its last three checkpoints and the best, the second."""
    folder, config = tmp_path_factory.mktemp("run"), Config(train=Train(keep_last=3))
    with (
        Run.open(folder, config, fingerprint="x", command=["test"]) as opened,
        opened.checkpoints(keep_last=3) as saver,
    ):
        for step, value in VALUES.items():
            params = {
                "w": np.full((2, 3), value, np.float32),
                "layers": {"b": np.float32(step) * np.ones(2, np.float32)},
            }
            trees = {"params": params, "opt_state": {"m": np.zeros(1)}, "progress": {"n": 0}}
            saver.save(step, **trees, data={}, metric=1.0 if step == 20 else 2.0)
    yield Run.read(folder)


def shapes() -> Any:
    device = jax.sharding.SingleDeviceSharding(jax.devices()[1])

    def leaf(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=device)

    return {"w": leaf(2, 3), "layers": {"b": leaf(2)}}


def test_the_last_ones_and_not_the_best(run: Run):
    assert run.saved.steps() == [20, 30, 40, 50]
    assert last_steps(run, 3, until=50) == [30, 40, 50]
    assert last_steps(run, 2, until=50) == [40, 50]
    assert last_steps(run, 2, until=40) == [30, 40]


def test_the_mean_is_that_of_exact_sums_where_it_is_asked_for(run: Run):
    found = average(run, shapes(), last=3, until=50)
    assert found["w"].dtype == np.float32
    assert found["w"].devices() == {jax.devices()[1]}
    np.testing.assert_array_equal(found["w"], np.full((2, 3), 1 / 3, np.float32))
    np.testing.assert_array_equal(found["layers"]["b"], [40.0, 40.0])
    np.testing.assert_array_equal(average(run, shapes(), last=1, until=40)["w"], np.full((2, 3), 1.0, np.float32))


def test_checkpoints_are_read_one_by_one(run: Run, monkeypatch: pytest.MonkeyPatch):
    """None of the parameters that were read is held when the next are."""
    restore, read = Checkpoints.restore, []

    def watched(self: Checkpoints, step: int, **trees: Any) -> Any:
        assert all(leaf() is None for leaf in read)
        restored = restore(self, step, **trees)
        read.extend(map(weakref.ref, jax.tree.leaves(restored.params)))
        return restored

    monkeypatch.setattr(Checkpoints, "restore", watched)
    average(run, shapes(), last=3, until=50)
    assert len(read) == 6


@pytest.mark.parametrize(
    ("last", "until", "complaint"),
    [
        (
            4,
            50,
            "--average=4 is more than the train.keep_last=3 checkpoints that the run keeps: ask for 3, or train wi",
        ),
        (3, 40, "has 2 of its last checkpoints up to step 40, 30, 40: ask for at most as many"),
        (0, 50, "--average must be at least 1, got 0"),
    ],
)
def test_what_is_not_kept_is_refused(run: Run, last: int, until: int, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        average(run, shapes(), last=last, until=until)
