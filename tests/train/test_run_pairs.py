"""A run on pairs of sentences: programs for each width, samples that translate, and going on where it stopped."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import jax
import numpy as np
import pytest
from small_run import session

from txjax.config import Config, Data, Log, Optim, Train
from txjax.data import dataset
from txjax.data.sources.pairs import Pairs
from txjax.data.tokenizers.words import Words
from txjax.models import presets
from txjax.store import Run
from txjax.train import watch
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


def test_a_sample_starts_as_the_decoder_learned_to_start_and_leaves_out_what_no_text_has(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data, asked = dataset.load(config), []
    codec = data.codec.extended(("pad", "sentinel0"))  # the marks of T5, whose texts start with padding
    codec.unwritten = (3,)
    monkeypatch.setattr(watch, "generate", lambda *args, **how: asked.append((args[2], how["sampling"])) or [[0]])
    this = MagicMock(config=config, dataset=replace(data, codec=codec), source=[0])
    this.run.samples = tmp_path
    watch.Watch.sample(this, 0, None)
    [(prompts, sampling)] = asked
    assert prompts == [[codec.specials["pad"]]]
    assert sampling.never == (3,)


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


TWO = """
from txjax.config import Config, Data, Encoder, Log, Optim, Train
from txjax.data.sources.pairs import Pairs
from txjax.data.tokenizers.listed import Listed
from txjax.models import presets
from txjax.nn.mixers.gru import GRU

LETTERS = Listed((*"abcdef", *"ghijk", "</s>"), between="nothing", end="</s>")
DIGITS = Listed(("<s>", "</s>", *"012345"), begin="<s>", end="</s>")


def get_config(folder):
    encoder = Encoder(num_layers=1, causal=True, bridge="states", embedding="own")
    return Config(
        model=presets.seq2seq(GRU(), 32, encoder=encoder),
        data=Data(source=Pairs(folder, source_tokenizer=LETTERS, buckets=1), tokenizer=DIGITS, context=8),
        optim=Optim(learning_rate=2e-2),
        train=Train(steps=120, batch_size=16, evaluate_every=None),
        log=Log(every=60, sample_tokens=8, temperature=0.0),
    )
"""


def test_each_side_learns_its_own_vocabulary(tmp_path: Path):
    """Letters to digits, which start with an id of their own: read, written, sampled and kept as two vocabularies."""
    draw, digit = np.random.default_rng(0), dict(zip("abcdef", "012345", strict=True))
    for split, count in (("train", 200), ("validation", 9)):
        words = ["".join(draw.choice(list(digit), draw.integers(1, 4))) for _ in range(count)]
        (tmp_path / f"{split}.en").write_text("".join(f"{word}\n" for word in words))
        (tmp_path / f"{split}.de").write_text("".join(" ".join(map(digit.get, word)) + "\n" for word in words))  # type: ignore[arg-type]
    (tmp_path / "two.py").write_text(TWO)
    (tmp_path / "words.txt").write_text("abc\nfed\nd\n")
    trained, translated = session(
        ("train", f"--config={tmp_path / 'two.py'}:{tmp_path}", f"--workdir={tmp_path / 'run'}"),
        ("translate", f"--workdir={tmp_path / 'run'}", f"--from={tmp_path / 'words.txt'}", "--beam=2"),
    )
    assert (trained.code, translated.code) == (0, 0), trained.err + translated.err
    assert translated.out.splitlines() == ["0 1 2", "5 4 3", "3"]
    params = Run.read(tmp_path / "run").saved.look(120)
    assert params["embedding"]["w"].shape == (8, 32) and params["encoder"]["embedding"]["w"].shape == (12, 32)
    read, written = (tmp_path / "run" / "samples" / "120.txt").read_text().split(" -> ")
    assert written.removesuffix("</s>").split() == [digit[letter] for letter in read.removesuffix("</s>")]
