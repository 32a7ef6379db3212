"""The digits that scikit-learn brings: their patches, splits and classes, and what a small ViT makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from txjax.config import Config, Data
from txjax.data import dataset
from txjax.data.sources.digits import Digits, patches_of, read
from txjax.models import presets
from txjax.schema import ConfigError

PROJECT = Path(__file__).parents[2]


def config(patch: int = 2, **data: float) -> Config:
    model = presets.vit(8, 1, 2, patches=(8 // patch) ** 2, side=patch, channels=1, classes=10)
    return Config(model=model, data=Data(source=Digits(patch), **data))  # type: ignore[arg-type]


def test_a_patch_holds_neighbouring_pixels_row_after_row():
    image = np.arange(64).reshape(1, 8, 8)
    patches = patches_of(image, 2)
    assert patches.shape == (1, 16, 4)
    assert patches[0, 0].tolist() == [0, 1, 8, 9]
    assert patches[0, 5].tolist() == [18, 19, 26, 27]  # second row, second column
    assert np.array_equal(patches_of(image, 8)[0, 0], np.arange(64))


def test_the_splits_hold_every_image_once():
    pytest.importorskip("sklearn")
    found = dataset.load(config(validation=0.1, test=0.2))
    images, labels = read()
    assert images.min() == -1 and images.max() == 1
    splits = [found.train, found.validation, found.test]
    assert [len(split) for split in splits] == [1257, 180, 360]  # type: ignore[arg-type]
    rows = np.concatenate([split.gather(np.arange(len(split)))["tokens"] for split in splits])  # type: ignore[union-attr]
    whole = patches_of(images, 2)
    assert sorted(map(bytes, rows)) == sorted(map(bytes, whole))
    assert dataset.load(config()).test is None
    assert found.trivial_loss() == pytest.approx(
        np.log(10), abs=0.01
    )  # the classes are nearly as frequent as each other
    assert np.bincount(labels).min() > 170


def test_a_row_past_the_last_has_no_weight():
    pytest.importorskip("sklearn")
    validation = dataset.load(config()).validation
    batch = validation.gather(np.array([0, len(validation)]))
    assert batch["weights"].tolist() == [[1.0], [0.0]]
    assert batch["targets"].shape == (2, 1) and batch["tokens"].shape == (2, 16, 4)
    assert validation.show(0, dataset.load(config()).codec)[-1] == f"is {batch['targets'][0, 0]}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: config(3), "patch must divide 8"),
        (
            lambda: Config(data=Data(source=Digits(), tokenizer="char")),
            "tokenizer=char is not used where source=digits",
        ),
        (lambda: dataset.load(Config(data=Data(source=Digits()))), "set model.embedding=patches with side=2"),
        (
            lambda: dataset.load(
                Config(model=presets.vit(8, 1, 2, patches=16, side=2, channels=1), data=config().data)
            ),
            "has 10 classes, and the model has head=classes with outputs=1000",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_fix(change, message: str):
    with pytest.raises(ConfigError, match=message):
        change()


@pytest.mark.long
def test_a_small_vit_reads_them(tmp_path: Path):
    """The recipe as its user runs it, on one device: eight that share two cores wait for one another."""
    pytest.importorskip("sklearn")
    run = f"--workdir={tmp_path / 'run'}"
    for command in (["train", "--config=configs/vit_digits.py", run], ["eval", run, "--split=test"]):
        done = subprocess.run(
            [sys.executable, "-m", "txjax", *command],
            cwd=PROJECT,
            env=os.environ | {"XLA_FLAGS": ""},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines() if line.startswith("test/"))
    assert found["test/tokens"] == "360"
    assert float(found["test/accuracy"]) >= 0.95
