"""`txjax translate`: lines in, lines out, of the mean of checkpoints; and BLEU."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax import api
from txjax.cli import main
from txjax.config import Config, Data, Encoder, Train
from txjax.data.tokenizers.words import Words
from txjax.models import build, presets
from txjax.store import Run

LINES = ["ein mann mit orange@@ ner mütze", "", "ein hund", "hund\u2028mann\u0085", "mütze " * 9]
CODEC = Words().build(LINES)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model that learned nothing, with three checkpoints of random weights."""
    folder = tmp_path_factory.mktemp("run")
    model = presets.llama(8, 1, 2, hidden=8, context=32, encoder=Encoder(num_layers=1), vocab_size=CODEC.vocab_size)
    config = Config(model=model, data=Data(tokenizer="words"), train=Train(keep_last=3))  # type: ignore[arg-type]
    shapes = build(model).shapes()
    with Run.open(folder, config, fingerprint="x", command=["test"]) as run, run.checkpoints(keep_last=3) as saver:
        CODEC.save(run.tokenizer)
        for step in (1, 2, 3):
            random = np.random.default_rng(step)
            params = jax.tree.map(lambda leaf: random.standard_normal(leaf.shape, np.float32), shapes)  # noqa: B023
            saver.save(step, params=params, opt_state={"m": np.zeros(1)}, progress={"n": 0}, data={})
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[str], str]:
    """Exit code, lines of output, and what standard error has."""
    code = main(["translate", *map(str, words)])
    out, err = capsys.readouterr()
    assert out == "" or out.endswith("\n")
    return code, out.split("\n")[:-1], err


def test_one_line_in_one_line_out_in_order(workdir: Path, source: Path, capsys: pytest.CaptureFixture[str]):
    """What Unicode calls an end of line is none, in a file of either kind and in standard input."""
    code, out, err = said(capsys, f"--workdir={workdir}", f"--from={source}", "--beam=2")
    assert (code, err) == (0, "")
    run = api.load(workdir)
    backwards = api.translate(run, LINES[::-1], beam=2)
    assert out == backwards[::-1]
    assert out[1] == "" and len(set(out)) > 2
    packed = source.with_suffix(".gz")
    packed.write_bytes(gzip.compress(source.read_bytes().replace(b"\n", b"\r\n")))
    assert said(capsys, f"--workdir={workdir}", f"--from={packed}", "--beam=2")[1] == out


def test_the_mean_of_checkpoints_from_standard_input(
    workdir: Path, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO(source.read_text()))
    code, out, _ = said(capsys, f"--workdir={workdir}", "--from=-", "--beam=2", "--average=2")
    assert code == 0
    second, third, mean = api.load(workdir, 2), api.load(workdir), api.load(workdir, average=2)
    for one, other, both in zip(*(jax.tree.leaves(run.params) for run in (second, third, mean)), strict=True):
        np.testing.assert_allclose((one + other) / 2, both, atol=1e-6)
    assert out == api.translate(mean, LINES, beam=2) != api.translate(third, LINES, beam=2)
    assert said(capsys, f"--workdir={workdir}", f"--from={source}", "--average=4")[::2] == (
        2,
        "txjax translate: --average=4 is more than the train.keep_last=3 checkpoints that the run keeps: ask for 3, or "
        "train with --config.train.keep_last=4\n",
    )


def test_bleu_and_its_signature(workdir: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The reference may be in byte-pair pieces, as the published text is; case counts, and white space cuts."""
    sacrebleu = pytest.importorskip("sacrebleu")
    own = api.translate(api.load(workdir), LINES, beam=2)
    reference = tmp_path / "reference.txt"
    common = [f"--workdir={workdir}", f"--from={source}", "--beam=2", f"--reference={reference}"]
    reference.write_text("\n".join(line.replace("orangener", "orange@@ ner") for line in own) + "\n")
    code, out, err = said(capsys, *common)
    assert (code, out) == (0, own)
    score, signature = err.splitlines()
    assert score.startswith("BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000")
    assert signature == f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}"
    reference.write_text("\n".join(line.upper() for line in own) + "\n")
    assert said(capsys, *common)[2].startswith("BLEU = 0.00 ")


def test_a_reference_that_cannot_be_used_is_refused_before_anything_is_translated(
    workdir: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(api, "translate", lambda *_, **__: pytest.fail("translated"))
    short = tmp_path / "short.txt"
    short.write_text("one\n")
    common = [f"--workdir={workdir}", f"--from={source}"]
    assert said(capsys, *common, f"--reference={short}") == (
        2,
        [],
        "txjax translate: --reference has 1 lines for 5 of text: it needs a line for each\n",
    )
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    assert said(capsys, *common, f"--reference={source}") == (
        2,
        [],
        "txjax translate: BLEU needs sacrebleu, which is not installed: pip install 'txjax[score]'\n",
    )
    code, _, err = said(capsys, f"--workdir={workdir}", "--from=/nowhere/at/all")
    assert code == 2 and err.startswith("txjax translate: /nowhere/at/all cannot be read as UTF-8 text: ")
