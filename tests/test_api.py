"""A trained run in a notebook, as txjax/api.py says."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from small_run import config_of

import txjax
from txjax.cli import main
from txjax.schema import ConfigError


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("api")
    assert main(["train", config_of(folder), f"--workdir={folder / 'run'}"]) == 0
    return folder / "run"


def test_load_logits_and_generate(workdir: Path):
    run = txjax.load(workdir)
    assert run.step == 20
    assert run.config.train.steps == 20
    assert run.folder == workdir
    logits = txjax.logits(run, "the cat sat")
    assert logits.shape == (11, run.codec.vocab_size)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(txjax.logits(run, "the cat")[:7], logits[:7], atol=1e-5)  # it looks at no later token

    text = txjax.generate(run, "the cat", tokens=1, temperature=0)
    assert text == ["the cat" + run.codec.decode([int(txjax.logits(run, "the cat")[-1].argmax())])]
    texts = txjax.generate(run, ["the ", "a bird and"], tokens=30, seed=3)
    assert [len(text) for text in texts] == [34, 40]  # past the context of 16, too
    assert texts[1] == txjax.generate(run, "a bird and", tokens=30, seed=4)[0]


def test_ids_that_no_text_has_are_not_written(workdir: Path):
    run = txjax.load(workdir)
    likeliest = int(txjax.logits(run, "the cat")[-1].argmax())
    run.codec.unwritten = (likeliest,)
    (text,) = txjax.generate(run, "the cat", tokens=1, temperature=0)
    second = int(txjax.logits(run, "the cat")[-1].argsort()[-2])
    assert text == "the cat" + run.codec.decode([second]) != "the cat" + run.codec.decode([likeliest])


def test_a_step_that_is_not_there_and_a_text_too_long_are_said(workdir: Path):
    with pytest.raises(ConfigError, match="has no checkpoint 3: there are 20"):
        txjax.load(workdir, 3)
    with pytest.raises(ConfigError, match="17 tokens runs past"):
        txjax.logits(txjax.load(workdir), "the cat sat on a ")
    with pytest.raises(ConfigError, match="past the context of 16"):
        txjax.generate(txjax.load(workdir), "the cat", tokens=30, past_context="error")


def test_the_parameters_lie_on_one_device(workdir: Path):
    assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(txjax.load(workdir).params))
