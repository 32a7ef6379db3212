"""A run on pairs of sentences: programs for each width, samples that translate, and going on where it stopped."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax.config import Config, Data, Log, Optim, Train
from txjax.data import dataset
from txjax.data.sources.pairs import Pairs
from txjax.data.tokenizers.words import Words
from txjax.models import presets
from txjax.store import Run
from txjax.train.run import new_batches, train_run

STEPS = 6


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """Sentences of two lengths, each to be written as it is read."""
    folder, draw = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    for split, count in (("train", 60), ("validation", 9)):
        lines = "".join(" ".join(draw.choice(list("abcd"), n)) + "\n" for n in draw.choice((2, 7), count))
        for language in ("en", "de"):
            (folder / f"{split}.{language}").write_text(lines)
    return Config(
        model=presets.transformer(16, 1, 2, hidden=16, context=8),
        data=Data(source=Pairs(str(folder), buckets=2), tokenizer=Words()),
        optim=Optim(learning_rate=1e-2),
        train=Train(steps=STEPS, batch_size=8, evaluate_every=3, checkpoint_every=3, keep_last=3),
        log=Log(every=1, sample_tokens=6, temperature=0.0),
    )


@pytest.fixture(scope="module")
def ended(config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    outcome, _ = train_run(config, dataset.load(config), str(folder), name="pairs", quiet=True)
    assert (outcome.step, outcome.reason) == (STEPS, "finished")
    return folder


def losses(folder: Path) -> dict[int, float]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return {row["step"]: row["train/loss"] for row in rows if "train/loss" in row}


def test_it_trains_on_batches_of_both_widths_and_learns(config: Config, ended: Path):
    batches = new_batches(config, dataset.load(config))
    shapes = {next(batches).tokens.shape for _ in range(STEPS)}
    assert shapes == {(16, 4), (8, 8)}
    found = losses(ended)
    assert list(found) == list(range(1, STEPS + 1))
    assert found[STEPS] < found[1]


def test_a_sample_is_a_sentence_of_validation_and_what_is_written_for_it(config: Config, ended: Path):
    data = dataset.load(config)
    row = data.validation.gather(np.array([len(data.validation) // 2]))
    read = data.codec.decode(row["source"][0][row["source_segments"][0] > 0])
    for step in (0, STEPS):
        said = (ended / "samples" / f"{step}.txt").read_text()
        assert said.startswith(f"{read} -> ")
    assert set(said.removeprefix(f"{read} -> ").replace("<|endoftext|>", "").split()) <= {*"abcd", "<unk>"}


def test_a_run_that_lost_its_last_checkpoint_goes_on_to_the_same_bits(config: Config, ended: Path, tmp_path: Path):
    again = tmp_path / "run"
    shutil.copytree(ended, again)
    shutil.rmtree(again / "checkpoints" / str(STEPS))
    train_run(config, dataset.load(config), str(again), name="pairs", quiet=True)
    assert losses(again) == losses(ended)
    one, other = (jax.tree.leaves(Run.read(folder).saved.look(STEPS)) for folder in (ended, again))
    assert len(one) == len(other) > 10
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
