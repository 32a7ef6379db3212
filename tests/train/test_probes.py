"""log.probes: what a run measures of itself, and that it costs nothing where nobody asks."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_run import assert_same_checkpoint, scalars

from txjax import presets
from txjax.batch import Batch
from txjax.config import Config, Data, Log, Train
from txjax.data.dataset import load
from txjax.data.sources.sort import Sort
from txjax.models import build
from txjax.parallel import make_layout
from txjax.probe import training
from txjax.schema import ConfigError, with_values
from txjax.store import Run
from txjax.store.metrics import read_rows
from txjax.train import watch as watch_module
from txjax.train.programs import Programs
from txjax.train.run import new_batches, train_run

OFF = Config(
    model=presets.gpt2(width=16, num_layers=2, num_heads=2, context=16, vocab_size=16),
    data=Data(source=Sort(length=4, symbols=5, held_out=50)),
    train=Train(steps=12, batch_size=8, evaluate_every=None, checkpoint_every=None),
    log=Log(every=1, peak_flops=1e11),
)
ON = with_values(OFF, {"log.probes": ("softmax_entropy", "gradient_norm")})
FIGURES = [f"probe/{name}/layer_{i}" for name in ("gradient_norm", "softmax_entropy") for i in (0, 1)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("probes")
    for name, config in (("off", OFF), ("on", ON)):
        train_run(config, load(config), str(folder / name), name="test", quiet=True)
    return folder / "off", folder / "on"


def test_probes_are_logged_at_the_start_the_end_and_every_few_logging_points(runs: tuple[Path, Path]):
    rows = read_rows(runs[1] / "metrics.jsonl")
    for figure in FIGURES:
        points = {row["step"]: row[figure] for row in rows if figure in row}
        assert list(points) == [0, 5, 10, 12]
        assert scalars(runs[1], figure) == pytest.approx(points)
    assert [row["step"] for row in rows] == list(range(13))


def test_what_is_logged_is_of_the_parameters_of_that_step_on_the_validation_set(runs: tuple[Path, Path]):
    config = ON.with_vocab(16)
    programs = Programs(config, build(config.model), make_layout(config.mesh))
    data, model = load(config), programs.model
    with programs.layout.scope():
        start = programs.initial_state().params
        end = Run.read(runs[1]).saved.restore(12, params=programs.state.params).params
        batch = data.validation.gather(np.arange(56) % 50)
    rows = {row["step"]: row for row in read_rows(runs[1] / "metrics.jsonl")}
    weights = np.where(np.arange(56) < 50, 1, 0)[:, None] * batch["weights"]
    whole = jax.tree.map(jnp.asarray, Batch(**batch | {"weights": weights.astype(np.float32)}))
    for step, params in ((0, start), (12, end)):
        found = training.measure(("gradient_norm",), model, jax.device_get(params), whole)["gradient_norm"]
        np.testing.assert_allclose([rows[step][name] for name in FIGURES[:2]], found, rtol=1e-3)


def test_training_is_the_same_with_probes_and_without(runs: tuple[Path, Path]):
    assert_same_checkpoint(*runs, 12)
    own = [[{k: v for k, v in row.items() if k in ("step", "train/loss", "train/grad_norm")} for row in
            read_rows(run / "metrics.jsonl") if row["step"]] for run in runs]  # fmt: skip
    assert own[0] == own[1]
    assert not any("probe" in name for row in read_rows(runs[0] / "metrics.jsonl") for name in row)


def test_the_train_steps_program_knows_nothing_of_probes():
    texts = []
    for config in (OFF, ON):
        programs = Programs(config, build(config.model), make_layout(config.mesh))
        with programs.layout.scope():
            step, _ = programs.compile_train_step(next(new_batches(config, load(config))))
        texts.append(step.as_text())  # type: ignore[attr-defined]
    assert texts[0] == texts[1]


def test_off_nothing_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(watch_module, "probed", never)
    config = with_values(OFF, {"train.steps": 6})
    train_run(config, load(config), str(tmp_path / "run"), name="test", quiet=True)


def test_an_unknown_probe_is_refused_before_it_trains(tmp_path: Path):
    config = with_values(OFF, {"log.probes": ("entropy",)})
    with pytest.raises(ConfigError, match="'entropy' is not a probe"):
        train_run(config, load(config), str(tmp_path / "run"), name="test", quiet=True)
    assert not (tmp_path / "run" / "metrics.jsonl").exists() or not read_rows(tmp_path / "run" / "metrics.jsonl")
