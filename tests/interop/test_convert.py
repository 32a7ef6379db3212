"""`txjax convert`, there and back: files of llama2.c as run folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from txjax import api, presets
from txjax.cli import STOPPED, USER_ERROR, main
from txjax.data.tokenizers.bpe import BPE
from txjax.data.tokenizers.char import Char
from txjax.data.tokenizers.huggingface import HuggingFaceCodec, files_of
from txjax.interop import huggingface, llama2c
from txjax.models import build
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.heads.masked import Masked
from txjax.store.checkpoints import CheckpointWriter
from txjax.store.files import StoreError

HEADER = llama2c.Header(width=8, hidden=12, num_layers=2, num_heads=2, num_kv_heads=1, vocab=261, context=16)


def write_tokenizer(path: Path, ids: int) -> None:
    """A tokenizer file of llama2.c: three marks, the bytes, and letters."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    pieces += [bytes([letter]) for letter in range(97, 97 + ids - len(pieces))]
    entries = b"".join(np.float32(0).tobytes() + np.int32(len(piece)).tobytes() + piece for piece in pieces)
    path.write_bytes(np.int32(max(map(len, pieces))).tobytes() + entries)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("theirs")
    random = np.random.default_rng(0)
    shapes = build(HEADER.model()).shapes()
    params = jax.tree.map(lambda leaf: random.standard_normal(leaf.shape, np.float32), shapes)
    llama2c.write(folder / "model.bin", llama2c.Weights(HEADER.model(), params))
    write_tokenizer(folder / "tok261.bin", 261)
    return folder


@pytest.fixture
def theirs(made: Path, tmp_path: Path) -> Path:
    """A folder as llama2.c's users have it, to damage."""
    return shutil.copytree(made, tmp_path / "theirs")


def convert(source: Path, target: Path) -> int:
    return main(["convert", f"--from={source}", f"--to={target}"])


def test_there_and_back_again(theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run, back = tmp_path / "run", tmp_path / "back.bin"
    assert convert(theirs, run) == 0
    assert f"txjax generate --workdir={run}" in capsys.readouterr().out
    loaded = api.load(run)
    assert (loaded.step, loaded.config.model, loaded.codec.vocab_size) == (0, HEADER.model(), 261)
    assert convert(run, back) == 0
    assert back.read_bytes() == (theirs / "model.bin").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"theirs", "run", "back.bin"}


def test_the_file_alone_is_enough_with_its_tokenizer_beside_it(theirs: Path, tmp_path: Path):
    write_tokenizer(theirs / "tok260.bin", 260)
    assert convert(theirs / "model.bin", tmp_path / "run") == 0
    assert api.load(tmp_path / "run").codec.vocab_size == 261


@pytest.mark.parametrize(
    ("source", "target", "complaint"),
    [
        ("theirs", "used", "used is not empty: give a new folder"),
        ("theirs", "used/file.bin", "file.bin is there already: give a new name"),
        ("none", "run", "--from: there is no"),
        ("used", "run", "must hold one .bin file of weights besides tok*.bin, it has a.bin, file.bin"),
        ("theirs/tok261.bin", "run", "tok261.bin is no checkpoint of llama2.c"),
        ("theirs/model.bin", "out.bin", "model.bin is no run folder"),
        ("used", "out.bin", "is no run, it has no config.json"),
        ("alone", "run", "the model has 261 ids, and beside it there is tok.bin with 260: put its tokenizer there"),
    ],
)
def test_what_cannot_be_done_is_refused(
    theirs: Path, tmp_path: Path, source: str, target: str, complaint: str, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "a.bin").touch()
    (tmp_path / "used" / "file.bin").touch()
    (tmp_path / "alone").mkdir()
    shutil.copy(theirs / "model.bin", tmp_path / "alone")
    write_tokenizer(tmp_path / "alone" / "tok.bin", 260)
    before = sorted(tmp_path.rglob("*"))
    assert convert(tmp_path / source, tmp_path / target) == USER_ERROR
    assert complaint in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("option", ["--step=best", "--average=2"])
def test_weights_of_others_have_no_checkpoints_to_choose(
    option: str, theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["convert", f"--from={theirs}", f"--to={tmp_path / 'run'}", option]) == USER_ERROR
    assert f"choose among a run's checkpoints, {theirs} is none" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_half_a_run_is_not_left_behind(
    theirs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise StoreError("no space left")

    monkeypatch.setattr(CheckpointWriter, "save", full)
    assert convert(theirs, tmp_path / "run") == STOPPED
    assert "no space left" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


# ---------------------------------------------------------------- Hugging Face

TOKENIZER = Path(__file__).parents[1] / "golden" / "tokenizer"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as transformers has it."""
    folder = shutil.copytree(TOKENIZER, tmp_path_factory.mktemp("theirs") / "llama")
    model = presets.llama(8, 2, 2, hidden=12, num_kv_heads=1, context=32, vocab_size=283)
    random = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: random.standard_normal(leaf.shape, np.float32), build(model).shapes())
    huggingface.write(folder, model, params, shard=10_000)
    return folder


@pytest.fixture(scope="module")
def run_of_llama(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "llama"
    assert convert(llama, folder) == 0
    return folder


def test_a_model_of_hugging_face_becomes_a_run_that_writes(
    llama: Path, run_of_llama: Path, capsys: pytest.CaptureFixture[str]
):
    loaded = api.load(run_of_llama)
    assert loaded.config.model == huggingface.read(llama).model
    assert (loaded.step, loaded.codec.kind, loaded.codec.bos, loaded.codec.separator) == (0, "huggingface", 0, 1)
    assert main(["generate", f"--workdir={run_of_llama}", "--prompt=the other", "--tokens=4", "--temperature=0"]) == 0
    assert capsys.readouterr().out.startswith("the other")


@pytest.mark.parametrize("form", ["huggingface", "llama"])
def test_and_goes_back_with_its_tokenizer(llama: Path, run_of_llama: Path, tmp_path: Path, form: str):
    back = tmp_path / "back"
    assert main(["convert", f"--from={run_of_llama}", f"--to={back}", f"--format={form}"]) == 0
    first, again = huggingface.read(llama), huggingface.read(back)
    assert again.model == first.model
    jax.tree.map(np.testing.assert_array_equal, again.params, first.params)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (back / name).read_text() == (llama / name).read_text()
    said = json.loads((back / "config.json").read_text())
    assert (said["bos_token_id"], said["eos_token_id"], said["pad_token_id"]) == (0, 1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["back"]


def test_over_an_encoder_the_id_that_begins_a_text_goes_with_the_weights(tmp_path: Path):
    """Also of a run that was trained here, whose tokenizer says nothing of it; else transformers takes its own."""
    theirs = shutil.copytree(TOKENIZER, tmp_path / "theirs")
    model = presets.bart(8, 1, 2, context=16, vocab_size=283, feedforward=Dense(hidden=12))
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), build(model).shapes())
    huggingface.write(theirs, model, params)
    assert convert(theirs, tmp_path / "run") == 0
    assert main(["convert", f"--from={tmp_path / 'run'}", f"--to={tmp_path / 'back'}", "--format=huggingface"]) == 0
    said = json.loads((tmp_path / "back" / "config.json").read_text())
    assert said["decoder_start_token_id"] == api.load(tmp_path / "run").codec.end == 1


def test_tensors_of_heads_that_the_class_lacks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """As bert-base-uncased has them: the next sentence's beside a config.json that says BertForMaskedLM."""
    theirs = shutil.copytree(TOKENIZER, tmp_path / "theirs")
    model = presets.bert(8, 1, 2, context=16, vocab_size=283, head=Masked(next_sentence=True))
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), build(model).shapes())
    huggingface.write(theirs, model, params)
    config = theirs / "config.json"
    config.write_text(config.read_text().replace("BertForPreTraining", "BertForMaskedLM"))
    assert convert(theirs, tmp_path / "run") == 0
    said = capsys.readouterr().out
    assert "left out: bert.pooler.dense.bias, " in said
    assert "cls.seq_relationship.weight, of other heads than masked, which this model has" in said
    assert api.load(tmp_path / "run").config.model.head == Masked()


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("gpt2", "gpt2 as Hugging Face lays it out holds only models with"),
        ("lama", "model_type='lama' is not known here, did you mean 'llama'"),
        (None, "is a run: say what to write, --format=llama2c or --format=huggingface"),
    ],
)
def test_a_run_goes_only_where_it_fits(
    run_of_llama: Path, tmp_path: Path, form: str | None, complaint: str, capsys: pytest.CaptureFixture[str]
):
    options = [f"--from={run_of_llama}", f"--to={tmp_path / 'out'}", *([f"--format={form}"] if form else [])]
    assert main(["convert", *options]) == USER_ERROR
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_model_without_its_tokenizer_is_refused(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bare = shutil.copytree(llama, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*"))
    assert convert(bare, tmp_path / "run") == USER_ERROR
    assert "has no tokenizer.json" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_of_ours_becomes_one_of_theirs():
    """Byte-level merges alone have a form there."""
    text = "the other day 你好 <|endoftext|>"
    ours = BPE(vocab_size=270).build([text])
    files = files_of(ours)
    assert files is not None
    theirs = HuggingFaceCodec(files)
    assert theirs.encode(text).tolist() == ours.encode(text).tolist()
    assert (theirs.separator, theirs.bos) == (ours.separator, None) and theirs.pieces[1:] == ours.pieces[1:]
    assert files_of(Char().build([text])) is None


# ---------------------------------------------------------------- the real weights


@pytest.fixture(scope="module")
def stories(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real") / "stories"
    assert convert(corpora / "stories260K", folder) == 0
    return folder


@pytest.fixture(scope="module")
def published(corpora: Path) -> str:
    text = (corpora / "stories260K" / "stories260K.upstream.md").read_text(encoding="utf-8")
    return text.split("-t 0.0\n")[1].split("\n```")[0]


def said(stories: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    assert main(["generate", f"--workdir={stories}", "--tokens=256", "--temperature=0", *options]) == 0
    return capsys.readouterr().out


@pytest.mark.bug("huggingface/transformers#3021")
def test_the_published_story_alone_and_in_a_batch(stories: Path, published: str, capsys: pytest.CaptureFixture[str]):
    assert said(stories, capsys) == published + "\n"
    other = said(stories, capsys, "--prompt=Lily and Tim")
    assert other.startswith("Lily and Tim ")
    both = said(stories, capsys, "--prompt=", "--prompt=Lily and Tim")
    assert both == f"--- 0\n{published}\n--- 1\n{other}"


def test_the_real_weights_come_back(stories: Path, corpora: Path, tmp_path: Path):
    """Every parameter, bit for bit; the tables of angles behind them are made again."""
    assert convert(stories, tmp_path / "back.bin") == 0
    real = (corpora / "stories260K" / "stories260K.bin").read_bytes()
    back = (tmp_path / "back.bin").read_bytes()
    assert len(back) == len(real)
    tables = 2 * 512 * 4 * 4
    assert back[:-tables] == real[:-tables]
