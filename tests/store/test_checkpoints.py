"""Checkpoints: what goes in comes out bit for bit, and nothing else is taken for one."""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from absl import logging as absl_logging
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from txjax.schema import ConfigError
from txjax.store.checkpoints import Checkpoints, CheckpointWriter
from txjax.store.files import StoreError
from txjax.store.leaves import mismatches

FullDisk = Callable[[int], AbstractContextManager[None]]

OPTIMIZER = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.multi_transform(
        {"matrix": optax.adamw(1e-3), "vector": optax.sgd(0.1, momentum=0.9)},
        lambda params: jax.tree.map(lambda x: "matrix" if x.ndim > 1 else "vector", params),
    ),
    optax.apply_if_finite(optax.scale_by_schedule(optax.constant_schedule(1.0)), 3),
)


def a_state(devices: int = 1) -> dict[str, Any]:
    """Parameters of several types and optimizer state over some devices, and progress, full of random bits."""
    mesh = jax.make_mesh((devices,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:devices])
    random = np.random.default_rng(5)

    def place(leaf: Any) -> Any:
        spec = PartitionSpec("x") if leaf.ndim and leaf.shape[0] % 8 == 0 else PartitionSpec()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    params = {
        "layers": {"w": random.standard_normal((8, 4, 3), np.float32)},
        "embedding": random.standard_normal((16, 4)).astype(jnp.bfloat16),
        "bias": np.array([1.5, -0.0, np.inf], np.float32),
        "unused": {},
    }
    opt_state = jax.tree.map(
        lambda x: np.asarray(random.standard_normal(x.shape) * 9).astype(x.dtype), OPTIMIZER.init(params)
    )
    progress = {
        "key": jax.random.key(1),
        "population": jax.random.split(jax.random.key(2), 8),
        "skipped": np.int32(2),
    }
    state = {"params": params, "opt_state": opt_state, "progress": progress}
    state = jax.tree.map(place, state)
    state["progress"]["step"] = 7
    return state


def bits(tree: Any) -> list[tuple[str, str, bytes]]:
    """Path, type and bytes of every leaf."""

    def leaf(value: Any) -> tuple[str, bytes]:
        kind = f"{value.dtype}{value.shape}" if hasattr(value, "dtype") else type(value).__name__
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return kind, np.asarray(value).tobytes()

    return [(jax.tree_util.keystr(path), *leaf(v)) for path, v in jax.tree_util.tree_flatten_with_path(tree)[0]]


def shapes(tree: Any) -> Any:
    """The tree without its values: what a resumed run knows."""
    return jax.tree.map(
        lambda x: (
            jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) if isinstance(x, jax.Array) else type(x)()
        ),
        tree,
    )


def small(value: float = 0.0) -> dict[str, Any]:
    return {"params": {"w": jnp.full(4, value)}, "opt_state": (), "progress": {"step": 0}, "data": {}}


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[CheckpointWriter]:
    with CheckpointWriter(tmp_path / "checkpoints", keep_last=2) as checkpoints:
        yield checkpoints


# ---------------------------------------------------------------- what comes back


@pytest.mark.bug(
    "borisdayma/dalle-mini#71", "google/flax#3570", "google/orbax#1402", "google/flax#1429", "google/flax#1550"
)
def test_everything_comes_back_bit_for_bit_in_the_tree_that_went_in(writer: CheckpointWriter):
    state = a_state(devices=8)
    data, meta = {"next_index": 3, "名": [1, None]}, {"digest": "abc", "val/loss": 2.5}
    assert writer.save(7, **state, data=data, meta=meta, metric=2.5)
    writer.wait()
    assert Checkpoints(writer.folder).restore(7).data == data
    restored = Checkpoints(writer.folder).restore(7, **shapes(state))
    assert (restored.step, restored.data, restored.meta) == (7, data, meta)
    for name, tree in state.items():
        back = getattr(restored, name)
        assert jax.tree.structure(back) == jax.tree.structure(tree), name
        assert bits(back) == bits(tree), name
        for old, new in zip(jax.tree.leaves(tree), jax.tree.leaves(back), strict=True):
            assert type(old) is type(new)
            assert not isinstance(old, jax.Array) or old.sharding == new.sharding
    assert jax.random.normal(restored.progress["key"]) == jax.random.normal(state["progress"]["key"])
    assert type(restored.progress["step"]) is int


@pytest.mark.bug("google-deepmind/ferminet#105")
def test_a_restored_state_goes_through_cond_with_a_fresh_one(writer: CheckpointWriter):
    state = a_state()
    writer.save(1, **state, data={})
    writer.wait()
    restored = writer.restore(1, **shapes(state))
    both = jax.lax.cond(True, lambda: restored.opt_state, lambda: OPTIMIZER.init(state["params"]))
    assert bits(both) == bits(state["opt_state"])


def test_on_other_devices_the_same_bits(writer: CheckpointWriter):
    writer.save(1, **a_state(devices=8), data={})
    writer.wait()
    for devices in (2, 1):
        state = a_state(devices)
        restored = writer.restore(1, **shapes(state))
        assert bits(restored.params) == bits(state["params"])
        assert bits(restored.opt_state) == bits(state["opt_state"])
        assert bits(restored.progress) == bits(state["progress"])
        assert len(restored.params["embedding"].sharding.device_set) == devices
        assert len(restored.progress["population"].sharding.device_set) == devices


def test_one_piece_alone(writer: CheckpointWriter):
    state = a_state(devices=8)
    writer.save(1, **state, data={"next_index": 3})
    writer.wait()
    placeless = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), state["params"])
    restored = writer.restore(1, params=placeless)
    assert bits(restored.params) == bits(state["params"])
    assert restored.params["embedding"].devices() == {jax.devices()[0]}
    assert restored.opt_state is None and restored.progress is None
    assert restored.data == {"next_index": 3}


def test_to_look_needs_no_tree(writer: CheckpointWriter):
    state = a_state(devices=8)
    writer.save(1, **state, data={})
    writer.wait()
    seen = writer.look(1)
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(seen))
    assert bits(seen) == bits(state["params"])
    assert writer.look(1, "opt_state")[1]["inner_states"]["matrix"]["inner_state"][0]["mu"]["layers"]["w"].shape == (
        8,
        4,
        3,
    )
    np.testing.assert_array_equal(writer.look(1, "progress")["key"], jax.random.key_data(state["progress"]["key"]))


@pytest.mark.bug("AI-Hypercomputer/maxtext#4343", "niznik-dev/cruijff_kit#588")
def test_leaves_that_do_not_agree_are_listed_by_path(writer: CheckpointWriter):
    state = small() | {"progress": {"key": jax.random.key(0, impl="rbg"), "step": 3}}
    state["params"] = {"a": jnp.zeros((2, 3)), "b": {"w": jnp.zeros(4)}, "c": jnp.zeros(1)}
    writer.save(1, **state)
    writer.wait()
    asked = {"a": jnp.zeros((3, 2)), "b": {"w": jnp.zeros(4, jnp.bfloat16)}, "d": jnp.zeros(1)}
    with pytest.raises(ConfigError) as error:
        writer.restore(1, params=asked, progress={"key": jax.random.key(0, impl="unsafe_rbg"), "step": jnp.int32(3)})
    assert str(error.value).splitlines()[1:] == [
        "  params/a: float32[2,3] in the checkpoint, asked for as float32[3,2]",
        "  params/b/w: float32[4] in the checkpoint, asked for as bfloat16[4]",
        "  params/d: asked for as float32[1], not in the checkpoint",
        "  params/c: float32[1] in the checkpoint, not asked for",
        "  progress/key: key<rbg>[] in the checkpoint, asked for as key<urbg>[]",
        "  progress/step: int in the checkpoint, asked for as int32[]",
    ]


def test_a_long_list_of_leaves_is_cut():
    lines = mismatches({}, {str(number): "float32[]" for number in range(100)})
    assert len(lines) == 11 and lines[-1] == "and 90 more"


@pytest.mark.bug("jax-ml/jax#7144", "poets-ai/elegy#226")
def test_what_was_saved_may_be_donated_and_overwritten_at_once(writer: CheckpointWriter):
    step = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    params = {"big": jnp.zeros(1_000_000), "half": jnp.zeros(1_000_000, jnp.bfloat16), "numpy": np.zeros(1000)}
    arrays = {name: params[name] for name in ("big", "half")}
    writer.save(1, params=arrays | {"numpy": params["numpy"]}, opt_state=(), progress={"step": 1}, data={})
    params["numpy"] += 1
    for _ in range(5):
        arrays = step(arrays)
    jax.block_until_ready(arrays)
    writer.wait()
    for name, leaf in writer.look(1).items():
        assert not leaf.any(), name


# ---------------------------------------------------------------- which are kept


def test_an_empty_folder_has_none(writer: CheckpointWriter, tmp_path: Path):
    for checkpoints in (writer, Checkpoints(tmp_path / "nowhere")):
        assert (checkpoints.steps(), checkpoints.latest(), checkpoints.best()) == ([], None, None)
        with pytest.raises(ConfigError, match=r"--step: .* has no checkpoint latest: there are none"):
            checkpoints.find("latest")


@pytest.mark.bug("antonioterpin/flowgym#51")
def test_the_last_and_the_best_are_kept_apart(tmp_path: Path):
    for steps in (range(1, 5), range(5, 9)):  # in two sessions: what is best is known from the disk
        with CheckpointWriter(tmp_path, keep_last=2) as writer:
            for step in steps:
                writer.save(step, **small(step), metric=1.0 + step)  # worse and worse
        assert writer.steps() == [1, steps[-1] - 1, steps[-1]]
        assert (writer.best(), writer.latest()) == (1, steps[-1])
    assert writer.find("best") == 1 and writer.find("latest") == 8 and writer.find(7) == 7
    with pytest.raises(ConfigError, match=r"has no checkpoint 4: there are 1, 7, 8"):
        writer.find(4)
    assert writer.look(writer.find("best"))["w"][0] == 1


def test_what_has_no_finite_metric_is_never_the_best(tmp_path: Path):
    with CheckpointWriter(tmp_path, keep_last=1) as writer:
        for step, metric in enumerate((3.0, None, 2.0, math.nan, 2.0, -math.inf, None), 1):
            writer.save(step, **small(), metric=metric)
    assert writer.steps() == [5, 7]  # of equal ones the newer
    assert (writer.best(), writer.metric(5), writer.metric(7)) == (5, 2.0, None)


@pytest.mark.bug("google/orbax#527", "google/orbax#2657", "google/flax#1091")
def test_a_step_that_is_there_is_not_written_again_and_an_earlier_one_refused(tmp_path: Path):
    with CheckpointWriter(tmp_path, keep_last=2) as writer:
        assert writer.save(20, **small(1.0))
        assert not writer.save(20, **small(2.0))  # the last step is one of the interval
    with CheckpointWriter(tmp_path, keep_last=2) as writer:
        assert not writer.save(20, **small(3.0))  # a finished run, started again
        with pytest.raises(StoreError, match=r"has a checkpoint 20, and 10 lies before it: resume from 20"):
            writer.save(10, **small())
    assert writer.look(20)["w"][0] == 1.0


# ---------------------------------------------------------------- what lies about


@pytest.mark.bug("Physical-Intelligence/openpi#566", "google/flax#1200", "NVIDIA-NeMo/Automodel#3261")
def test_what_is_no_checkpoint_is_neither_read_nor_in_the_way(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with CheckpointWriter(tmp_path, keep_last=9) as writer:
        writer.save(1, **small(1.0))
    shutil.copytree(tmp_path / "1", tmp_path / "4")
    shutil.rmtree(tmp_path / "4" / "opt_state")
    (tmp_path / "2.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "3").mkdir()
    (tmp_path / "5").write_text("a file")
    shutil.copytree(tmp_path / "1", tmp_path / "007")
    shutil.copytree(tmp_path / "1", tmp_path / "notes")
    assert Checkpoints(tmp_path).steps() == [1]
    with CheckpointWriter(tmp_path, keep_last=9) as writer:
        assert writer.latest() == 1
        for step in range(2, 6):
            writer.save(step, **small(step))
    assert writer.steps() == [1, 2, 3, 4, 5]
    assert [writer.look(step)["w"][0] for step in writer.steps()] == [1, 2, 3, 4, 5]
    others = {path.name for path in tmp_path.iterdir()} - {str(step) for step in writer.steps()}
    assert others == {"3.incomplete", "4.incomplete", "5.incomplete", "007", "notes"}
    assert (tmp_path / "4.incomplete" / "params").is_dir()
    assert {record.getMessage().split()[0] for record in caplog.records} == {"ignored", "renamed"}


def test_a_second_leftover_of_a_step_does_not_replace_the_first(tmp_path: Path):
    for content in ("one", "two", "three"):
        (tmp_path / "5").write_text(content)
        CheckpointWriter(tmp_path, keep_last=1).close()
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"5.incomplete": "one", "5.incomplete-2": "two", "5.incomplete-3": "three"}


@pytest.mark.bug("google/orbax#394")
def test_a_copy_is_as_good_as_the_original_and_what_else_lies_there_stays(tmp_path: Path):
    with CheckpointWriter(tmp_path / "a", keep_last=1) as writer:
        writer.save(3, **small(3.0), metric=1.0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "9.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "b" / "mine").mkdir()
    with CheckpointWriter(tmp_path / "b", keep_last=1) as writer:
        assert (writer.latest(), writer.best()) == (3, 3)
        assert writer.restore(3, params=small()["params"]).params["w"][0] == 3.0
        writer.save(4, **small(), metric=2.0)
    assert sorted(os.listdir(tmp_path / "b")) == ["3", "4", "9.orbax-checkpoint-tmp", "mine"]


def test_a_removal_that_was_cut_short_is_finished(tmp_path: Path):
    with CheckpointWriter(tmp_path, keep_last=1) as writer:
        writer.save(3, **small())
    shutil.copytree(tmp_path / "3", tmp_path / "2.removed")
    CheckpointWriter(tmp_path, keep_last=1).close()
    assert os.listdir(tmp_path) == ["3"]


def test_files_that_are_lost_are_an_error_and_no_zeros(tmp_path: Path):
    with CheckpointWriter(tmp_path, keep_last=1) as writer:
        writer.save(3, **small(1.0))
    for file in (tmp_path / "3" / "params").rglob("d/*"):
        file.unlink()
    with pytest.raises(StoreError, match=r"cannot read the checkpoint .*/3: "):
        writer.restore(3, params=small()["params"])
    with pytest.raises(StoreError, match=r"cannot read .*/3/params: "):
        writer.look(3)


# ---------------------------------------------------------------- saves that fail


NOISE = {"params": {"w": np.random.default_rng(0).standard_normal(100_000)}}  # it does not compress


@pytest.mark.bug("google/orbax#605", "keras-team/keras#23609")
@pytest.mark.parametrize("told_by", ["save", "wait", "close", "with"])
def test_a_full_disk_is_told_with_its_step_and_leaves_the_one_before(tmp_path: Path, full_disk: FullDisk, told_by: str):
    writer = CheckpointWriter(tmp_path, keep_last=1)
    writer.save(1, **small() | NOISE)
    writer.wait()
    with full_disk(100_000):
        writer.save(2, **small() | NOISE)
        with pytest.raises(StoreError, match=rf"checkpoint 2 was not saved in {tmp_path}: File too large$"):
            if told_by == "save":
                writer.save(3, **small())
            elif told_by == "wait":
                writer.wait()
            elif told_by == "close":
                writer.close()
            else:
                with writer:
                    pass
        with pytest.raises(
            StoreError, match=r"checkpoint 2 was not saved .*: File too large$"
        ):  # not forgotten once told
            writer.close()
    assert Checkpoints(tmp_path).steps() == [1]  # it goes only once a newer one is complete


@pytest.mark.bug("google/orbax#605", "keras-team/keras#23609")
def test_a_folder_that_became_a_file_is_told_with_the_step(tmp_path: Path):
    folder = tmp_path / "checkpoints"
    writer = CheckpointWriter(folder, keep_last=1)
    folder.rmdir()
    folder.write_text("in the way")
    with pytest.raises(StoreError, match=r"checkpoint 2 was not saved in .*checkpoints: Not a directory$"), writer:
        writer.save(2, **small())


def test_a_checkpoint_that_is_gone_when_it_should_be_there_is_told(tmp_path: Path):
    writer = CheckpointWriter(tmp_path, keep_last=1)
    writer.save(1, **small())
    writer._saver.wait_until_finished()
    shutil.rmtree(tmp_path / "1")
    with pytest.raises(StoreError, match="checkpoint 1 was not saved"):
        writer.close()


def test_the_error_on_its_way_out_comes_first(tmp_path: Path, full_disk: FullDisk, caplog: pytest.LogCaptureFixture):
    with pytest.raises(ZeroDivisionError), full_disk(100_000), CheckpointWriter(tmp_path, keep_last=1) as writer:
        writer.save(2, **small() | NOISE)
        raise ZeroDivisionError
    assert "checkpoint 2 was not saved" in caplog.text


@pytest.mark.bug("liesel-devs/liesel#272")
@pytest.mark.parametrize("what", ["a donated array", "a text", "no JSON"])
def test_what_cannot_be_saved_is_refused_by_name_and_the_writer_goes_on(writer: CheckpointWriter, what: str):
    state = small()
    if what == "a donated array":
        jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)(state["params"])
        message = "w has been donated or deleted"
    elif what == "a text":
        state["progress"] = {"name": "run"}
        message = "name is neither an array nor a number: 'run'"
    else:
        state["data"] = {"count": np.int64(3)}
        message = "int64 is not JSON serializable"
    with pytest.raises((TypeError, ValueError), match=message):
        writer.save(1, **state)
    assert writer.save(1, **small())


@pytest.mark.parametrize("place", ["/proc/checkpoints", "file"])
def test_a_folder_that_cannot_be_made_fails_at_the_start(tmp_path: Path, place: str):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write in"):
        CheckpointWriter(Path("/proc/nowhere") if place != "file" else tmp_path / "file", keep_last=1)


def test_orbax_keeps_quiet_and_absl_does_not(writer: CheckpointWriter, caplog: pytest.LogCaptureFixture):
    before = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.INFO)
    try:
        with caplog.at_level(logging.INFO, logger="absl"):
            absl_logging.info("ours")
            writer.save(1, **small())
            writer.wait()
            writer.restore(1, params=small()["params"])
    finally:
        absl_logging.set_verbosity(before)
    assert [record.getMessage() for record in caplog.records if record.name == "absl"] == ["ours"]
