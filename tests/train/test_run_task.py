"""Runs on a synthetic task and on a text with a test split: their metrics, their folder, and what is read from it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import jax
import pytest
from small_run import assert_same_checkpoint, column, config_of

from txjax import presets
from txjax.cli import main
from txjax.config import Config, Data, Log, Optim, Train
from txjax.data.dataset import load
from txjax.data.sources.retrieval import Retrieval
from txjax.data.sources.sort import Sort
from txjax.models import build
from txjax.parallel import make_layout
from txjax.train.evaluate import evaluate_split
from txjax.train.programs import Programs
from txjax.train.run import new_batches, train_run

TINY = Config(
    model=presets.gpt2(width=16, num_layers=1, num_heads=2, context=16),
    data=Data(source=Sort(length=4, symbols=5, held_out=50)),
    train=Train(steps=12, batch_size=8, evaluate_every=6, checkpoint_every=6),
    log=Log(every=4, peak_flops=1e11),
)


def train(config: Config, folder: Path) -> None:
    train_run(config, load(config), str(folder), name="test", quiet=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task") / "run"
    train(TINY, folder)
    return folder


def test_a_run_on_a_task_is_evaluated_saved_and_read_again(trained: Path, capsys: pytest.CaptureFixture[str]):
    assert list(column(trained, "val/accuracy")) == [6, 12]
    assert set(column(trained, "val/tokens").values()) == {50 * 4}
    assert "val/bits_per_byte" not in (trained / "metrics.jsonl").read_text()
    assert not (trained / "samples").exists()  # its ids spell no text
    capsys.readouterr()
    assert main(["eval", f"--workdir={trained}"]) == 0
    printed = capsys.readouterr().out
    assert f"val/loss             {column(trained, 'val/loss')[12]:.4f}" in printed
    assert f"val/accuracy         {column(trained, 'val/accuracy')[12]:.4f}" in printed
    assert main(["eval", f"--workdir={trained}", "--split=test"]) == 0
    printed = capsys.readouterr().out
    assert "test/accuracy" in printed and "val/" not in printed
    assert main(["generate", f"--workdir={trained}", "--prompt=s3 s1 s0 s2 =", "--tokens=2"]) == 0
    assert capsys.readouterr().out.startswith("s3 s1 s0 s2 = ")


def test_a_run_on_a_task_stopped_and_resumed_is_the_run_that_went_on(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr("txjax.train.loop.asked", lambda stop, step, every: step == 6)
        train(TINY, tmp_path / "halves")
    assert list(column(tmp_path / "halves", "val/loss")) == [6]
    train(TINY, tmp_path / "halves")
    assert_same_checkpoint(trained, tmp_path / "halves", 12)


def test_a_text_is_evaluated_on_its_test_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    flags = ("--config.data.validation=0.2", "--config.data.test=0.1", "--config.train.steps=1")
    assert main(["train", config_of(tmp_path), f"--workdir={tmp_path / 'run'}", *flags]) == 0
    length = len((tmp_path / "text.txt").read_text())
    capsys.readouterr()
    assert main(["eval", f"--workdir={tmp_path / 'run'}", "--split=test"]) == 0
    assert f"test/tokens          {length - int(length * 0.9) - 1:,}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_small_transformer_learns_retrieval():
    config = Config(
        model=presets.gpt2(width=64, num_layers=1, num_heads=1, context=16, bias=False),
        data=Data(source=Retrieval(pairs=4, keys=8, values=8, pairing="joined")),
        optim=Optim(learning_rate=3e-3),
        train=Train(steps=200, batch_size=64),
    )
    data = load(config)
    config = config.with_vocab(data.codec.vocab_size)
    layout = make_layout(config.mesh, jax.devices()[:1])
    with layout.scope():
        programs, batches = Programs(config, build(config.model), layout), new_batches(config, data)
        state = programs.initial_state()
        before = evaluate_split(programs, state.params, data.validation)
        step, _ = programs.compile_train_step(next(batches))
        for batch in islice(batches, 200):
            state, _ = step(state, programs.to_devices(batch), programs.hyper)
        after = evaluate_split(programs, state.params, data.split("test"))
    assert before.tokens == after.tokens == 1000
    assert before.loss == pytest.approx(data.trivial_loss(), abs=4) and before.accuracy < 0.3
    assert after.accuracy > 0.95 and after.loss < 0.2
