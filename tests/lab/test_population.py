"""A population: each member is its single run, none touches another, and a killed one goes on as one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest
from small_run import assert_close, assert_same_checkpoint, column, scalars

from txjax import presets
from txjax.config import Config, Data, Log, Optim, Train
from txjax.data.pipeline import TrainBatches
from txjax.data.sources.sort import Sort
from txjax.lab import Study
from txjax.lab import trainer as trainer_module
from txjax.lab.arms import resolve
from txjax.lab.cells import Cell, Result, report_cells
from txjax.lab.execution import Execution, Silent, Stopped, Way
from txjax.lab.readouts import final
from txjax.schema import with_values
from txjax.store import run as run_module
from txjax.train import group as group_module
from txjax.train import programs as programs_module
from txjax.train.loop import Outcome
from txjax.train.programs import Programs
from txjax.train.stop import Stop

STEPS = 20
BASE = Config(
    model=presets.gpt2(width=16, num_layers=1, num_heads=2, context=16),
    data=Data(source=Sort(length=4, symbols=5, held_out=32)),
    optim=Optim(learning_rate=1e-2),
    train=Train(steps=STEPS, batch_size=8, evaluate_every=10, checkpoint_every=None),
    log=Log(every=1, sample_tokens=0, peak_flops=1e11, probes=("gradient_norm",)),
)
RATES = (1e-3, 1e-2)


def study(base: Config = BASE, path: str = "optim.learning_rate", levels: Sequence[Any] = RATES) -> Study:
    return Study(question="?", base=base, factors={path: levels}, metric=final("test/loss"), predictions=[])


def cells_of(about: Study, execution: Execution, seeds: int = 2) -> list[Cell]:
    assert isinstance(about.base, Config)
    arms = resolve(about, about.base, execution.with_vocab)
    return report_cells(arms, [{}] * len(arms), range(seeds))


def execution_in(folder: Path, about: Study, way: Way, stop: Stop | None = None) -> Execution:
    return Execution(about, folder / "cells", Silent(), stop or Stop(), way=way)


def run(folder: Path, way: Way, about: Study | None = None, seeds: int = 2, stop: Stop | None = None) -> list[Cell]:
    about = about or study()
    execution = execution_in(folder, about, way, stop)
    cells = cells_of(about, execution, seeds)
    execution.run(cells, "report")
    return cells


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run(folder, "sequential")
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    run(folder, "population")
    return folder


def folders(folder: Path) -> list[Path]:
    return sorted((folder / "cells").iterdir())


@pytest.mark.long
def test_a_member_has_the_rows_of_its_single_run(alone: Path, together: Path):
    """Values within 1e-4: the same float32 operations, in batched matrix products that add in another order, and Adam
    divides by the root of small second moments."""
    for one, other in zip(folders(alone), folders(together), strict=True):
        assert one.name == other.name
        rows = [[json.loads(line) for line in (f / "metrics.jsonl").read_text().splitlines()] for f in (one, other)]
        assert [list(row) for row in rows[0]] == [list(row) for row in rows[1]]
        probed = "probe/gradient_norm/layer_0"
        assert list(column(other, probed)) == [0, 5, 10, 15, 20]
        for name in ("train/loss", "train/grad_norm", "train/learning_rate", "val/loss", "val/accuracy", probed):
            assert_close(column(one, name), column(other, name), 1e-4)
            assert_close(scalars(one, name), scalars(other, name), 1e-4)
        assert list(column(other, "val/loss")) == [10, 20]
        a, b = Result.load(one), Result.load(other)
        assert a and b and (a.state, a.steps, a.trivial) == (b.state, b.steps, b.trivial)
        np.testing.assert_allclose(list(a.figures.values()), list(b.figures.values()), rtol=1e-4)
        assert list(a.figures) == list(b.figures)
    assert not list((together / "populations").iterdir())  # what was kept for a kill is gone


def test_a_member_is_read_on_as_a_run_of_its_own(together: Path):
    """Its folder is complete: started again alone, nothing is left to train."""
    (folder, *_) = folders(together)
    before = (folder / "result.json").read_text()
    (folder / "result.json").unlink()
    run(together, "sequential")
    figures = [json.loads(text)["figures"] for text in (before, (folder / "result.json").read_text())]
    assert figures[0] == figures[1]


@pytest.mark.long
def test_seeds_and_rates_compile_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    counted = chex.assert_max_traces(n=1)
    real = group_module.make_train_step
    monkeypatch.setattr(group_module, "make_train_step", lambda *about: counted(real(*about)))
    chex.clear_trace_counter()
    base = with_values(BASE, {"train.steps": 2, "train.evaluate_every": None})
    cells = run(tmp_path, "population", study(base, levels=(1e-3, 3e-3, 1e-2)), seeds=3)
    assert len(cells) == 9
    losses = {cell.id: column(tmp_path / "cells" / cell.id, "train/loss")[2] for cell in cells}
    assert len(set(losses.values())) == 9  # they are nine runs, and not one nine times


class StopAt(Stop):
    """Asks to stop once the loop has looked so often."""

    def __init__(self, looks: int) -> None:
        self.left = looks

    @property
    def asked(self) -> bool:  # type: ignore[override]
        self.left -= 1
        return self.left < 0


@pytest.mark.long
@pytest.mark.parametrize("lost", [(), ("seed=1",)], ids=["all", "some ended meanwhile"])
def test_a_population_cut_short_goes_on_as_one_to_the_same_bits(tmp_path: Path, together: Path, lost: Sequence[str]):
    with pytest.raises(Stopped):
        run(tmp_path, "population", stop=StopAt(7))
    (saved,) = (tmp_path / "populations").iterdir()
    assert [path.name for path in saved.iterdir() if path.name.isdecimal()] == ["8"]
    for folder in folders(tmp_path):
        assert not (folder / "result.json").exists()
        if any(word in folder.name for word in lost):
            Result("diverged", 0, 1.0).save(folder)
    run(tmp_path, "population")
    compared = [f for f in folders(tmp_path) if not any(word in f.name for word in lost)]
    assert len(compared) == (2 if lost else 4)
    for folder in compared:
        assert_same_checkpoint(folder, together / "cells" / folder.name, STEPS)
        for name in ("train/loss", "val/loss"):
            assert column(folder, name) == column(together / "cells" / folder.name, name)


def poison(monkeypatch: pytest.MonkeyPatch, seed: int, step: int) -> None:
    """From this step on, the gradient of the members of a seed is not finite."""
    real = group_module.make_train_step

    def make(*about: Any) -> Callable[..., Any]:
        plain = real(*about)

        def train_step(state: Any, batch: Any, hyper: Any) -> Any:
            marked = jax.random.key_data(state.key) == jax.random.key_data(key_of(seed))
            bad = marked.all() & (state.step >= step)
            rate = jax.numpy.where(bad, jax.numpy.nan, hyper.learning_rate)
            return plain(state, batch, dataclasses.replace(hyper, learning_rate=rate))

        return train_step

    monkeypatch.setattr(group_module, "make_train_step", make)


def key_of(seed: int) -> jax.Array:
    """The key that a run of this seed carries."""
    return jax.random.split(jax.random.key(seed))[1]


def test_a_member_that_diverges_touches_no_other(tmp_path: Path, together: Path, monkeypatch: pytest.MonkeyPatch):
    poison(monkeypatch, seed=1, step=6)
    cells = run(tmp_path, "population")
    for cell in cells:
        folder = tmp_path / "cells" / cell.id
        result = Result.load(folder)
        assert result is not None
        if cell.seed == 1:
            assert result.state == "diverged" and result.trivial is not None and not result.figures
            assert result.steps == 7  # the first that was poisoned is the seventh
            assert max(column(folder, "train/skipped_steps")) in (7, 8)  # metrics are read an interval late
        else:
            assert result.state == "finished"
            assert_same_checkpoint(folder, together / "cells" / cell.id, STEPS)


@pytest.mark.slow
def test_where_every_member_diverges_the_population_ends(tmp_path: Path):
    base = with_values(BASE, {"optim.clip": None, "train.steps": 8})
    about = study(base, levels=(1e30, 1e32))
    cells = run(tmp_path, "population", about, seeds=1)
    assert [Result.load(tmp_path / "cells" / cell.id).state for cell in cells] == ["diverged"] * 2  # type: ignore[union-attr]


@pytest.mark.slow
def test_eight_devices_give_what_one_gives(tmp_path: Path, together: Path, monkeypatch: pytest.MonkeyPatch):
    """Four members over eight devices, half of which compute copies; on one device all four in one product."""
    assert jax.device_count() == 8
    real = trainer_module.make_layout
    monkeypatch.setattr(trainer_module, "make_layout", lambda mesh: real(mesh, jax.devices()[:1]))
    run(tmp_path, "population")
    for one, other in zip(folders(tmp_path), folders(together), strict=True):
        assert_close(column(one, "train/loss"), column(other, "train/loss"), 1e-4)
        assert_close(column(one, "val/loss"), column(other, "val/loss"), 1e-4)


def test_a_population_that_fails_as_a_whole_is_trained_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def no_memory(*_: Any) -> Any:
        raise MemoryError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setattr(group_module, "make_train_step", no_memory)
    base = with_values(BASE, {"train.steps": 2, "train.evaluate_every": None})
    cells = run(tmp_path, "population", study(base), seeds=1)
    assert [Result.load(tmp_path / "cells" / cell.id).state for cell in cells] == ["finished"] * 2  # type: ignore[union-attr]


def test_an_8_seed_3_rate_2_arm_study_compiles_two_training_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is saved and evaluated here: every cell takes one step."""
    traced = []
    real = programs_module.make_train_step

    def make(*about: Any) -> Callable[..., Any]:
        plain = real(*about)

        def train_step(*state: Any) -> Any:
            traced.append(about)
            return plain(*state)

        return train_step

    def one_step(_: Any, __: Any, programs: Programs, batches: TrainBatches, *___: Any) -> Outcome:
        batch = next(batches)
        step, _ = programs.compile_train_step(batch)
        step(programs.initial_state(), programs.to_devices(batch), programs.hyper)
        return Outcome(1, "finished")

    monkeypatch.setattr(programs_module, "make_train_step", make)
    monkeypatch.setattr(trainer_module, "train_in", one_step)
    monkeypatch.setattr(trainer_module, "last_parameters", lambda *_: None)
    monkeypatch.setattr(Execution, "figures", lambda *_: {"test/loss": 1.0})
    monkeypatch.setattr(run_module, "start", lambda _: {})
    about = study(path="model.norm_placement", levels=("pre", "post"))
    execution = execution_in(tmp_path, about, "sequential")
    arms = resolve(about, BASE, execution.with_vocab)
    rates = [{"optim.learning_rate": rate} for rate in (1e-3, 3e-3, 1e-2)]
    cells = [cell for rate in rates for cell in report_cells(arms, [rate] * 2, range(8))]
    execution.run(cells, "report")
    assert not execution.missing(cells)
    assert len(cells) == 48 and len(traced) == 2
