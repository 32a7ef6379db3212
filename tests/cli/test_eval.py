"""`txjax eval`: which checkpoints it judges. What it says of a trained run: tests/cli/test_own_text.py."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax import api
from txjax.cli import main
from txjax.config import Config, Data, Train
from txjax.data import dataset
from txjax.interop import huggingface
from txjax.models import build, presets
from txjax.store import Run
from txjax.train.evaluate import batches_of, evaluate
from txjax.train.step import make_evaluation_step


def test_the_mean_of_checkpoints_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Of random weights, so that the mean is far from either; the figure is that of the mean, to its last place."""
    text = tmp_path / "text.txt"
    text.write_text("one two three four five six. " * 40)
    model = presets.llama(8, 1, 2, hidden=8, context=16, vocab_size=257)
    config = Config(model=model, data=Data(source=str(text)), train=Train(keep_last=3))  # type: ignore[arg-type]
    data = dataset.load(config)
    shapes = build(model).shapes()
    folder = tmp_path / "run"
    with Run.open(folder, config, fingerprint="x", command=["test"]) as run, run.checkpoints(keep_last=3) as saver:
        data.codec.save(run.tokenizer)
        for step in (1, 2, 3):
            random = np.random.default_rng(step)
            params = jax.tree.map(lambda leaf: random.standard_normal(leaf.shape, np.float32), shapes)  # noqa: B023
            saver.save(step, params=params, opt_state={"m": np.zeros(1)}, progress={"n": 0}, data={})
    losses = {}
    for average in (1, 2):
        assert main(["eval", f"--workdir={folder}", f"--average={average}"]) == 0
        said = capsys.readouterr().out
        assert ("the mean of 2 checkpoints" in said) == (average == 2)
        losses[average] = float(re.search(r"val/loss +(\S+)", said)[1])  # type: ignore[index]
    loaded = api.load(folder, average=2)
    step = jax.jit(make_evaluation_step(loaded.model, config))
    want = evaluate(step, loaded.params, batches_of(data.validation, config, 1), loaded.model.knobs())
    assert losses[2] == round(want.loss, 4) != losses[1]
    away = tmp_path / "theirs"
    assert main(["convert", f"--from={folder}", f"--to={away}", "--format=huggingface", "--average=2"]) == 0
    assert f"step 3 of {folder}, the mean of 2 checkpoints is now {away}" in capsys.readouterr().out
    jax.tree.map(np.testing.assert_array_equal, huggingface.read(away).params, loaded.params)
    assert main(["eval", f"--workdir={folder}", "--average=4"]) == 2
    assert "train.keep_last=3" in capsys.readouterr().err
