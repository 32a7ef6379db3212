"""g2p-en's layout: a tiny net of random weights, converted, says what the formulas of its GRU say."""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
import pytest

from txjax import api
from txjax.cli import USER_ERROR, main
from txjax.interop import g2p
from txjax.models.costs import count_parameters

WIDTH, LETTERS, PHONEMES = 12, 29, 74
UNKNOWN, END_OF_WORD, FIRST_LETTER = 1, 2, 3
PAD, START, END = 0, 2, 3
WORDS = [
    "a",
    "the",
    "naïve",
    "o'er",
    "zzz",
    "pronunciation",
    "jax",
    "x" * 40,
    *("abcdefghijklmn"[i:] for i in range(14)),
]

Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def arrays() -> Arrays:
    shapes = {"fc_w": (PHONEMES, WIDTH), "fc_b": (PHONEMES,), "enc_emb": (LETTERS, WIDTH), "dec_emb": (PHONEMES, WIDTH)}
    for side in ("enc", "dec"):
        shapes |= {f"{side}_w_ih": (3 * WIDTH, WIDTH), f"{side}_w_hh": (3 * WIDTH, WIDTH)}
        shapes |= {f"{side}_b_ih": (3 * WIDTH,), f"{side}_b_hh": (3 * WIDTH,)}
    draw = np.random.default_rng(2)
    found = {name: draw.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    found["fc_b"][[PAD, START]] = -99.0  # marks that no text has
    found["fc_b"][END] += 2.0
    return found


def saved(arrays: Arrays, path: Path) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def step(weights: Arrays, side: str, x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """torch.nn.GRU's formulas, as its page has them, with its names."""
    w_i, w_h, b_i, b_h = (weights[f"{side}_{name}"].reshape(3, WIDTH, -1) for name in ("w_ih", "w_hh", "b_ih", "b_hh"))
    r, z = (1 / (1 + np.exp(-(w_i[g] @ x + b_i[g, :, 0] + w_h[g] @ h + b_h[g, :, 0]))) for g in (0, 1))
    n = np.tanh(w_i[2] @ x + b_i[2, :, 0] + r * (w_h[2] @ h + b_h[2, :, 0]))
    return (1 - z) * n + z * h


def said(arrays: Arrays, word: str) -> list[int]:
    weights = {name: array.astype(np.float64) for name, array in arrays.items()}
    ids = [string.ascii_lowercase.find(letter) + FIRST_LETTER if letter.isascii() and letter.isalpha() else UNKNOWN
           for letter in word]  # fmt: skip
    h = np.zeros(WIDTH)
    for letter in [*ids, END_OF_WORD]:
        h = step(weights, "enc", weights["enc_emb"][letter], h)
    phonemes = [START]
    while phonemes[-1] != END and len(phonemes) <= 20:
        h = step(weights, "dec", weights["dec_emb"][phonemes[-1]], h)
        phonemes.append(int(np.argmax(weights["fc_w"] @ h + weights["fc_b"])))
    return [phoneme for phoneme in phonemes[1:] if phoneme != END]


@pytest.fixture(scope="module")
def run(arrays: Arrays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("g2p")
    source = saved(arrays, folder / "checkpoint.npz")
    assert main(["convert", f"--from={source}", f"--to={folder / 'run'}"]) == 0
    return folder / "run"


def test_words_are_pronounced_as_by_the_formulas(
    run: Path, arrays: Arrays, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    how = ("--beam=1", "--stop=full", f"--longest={g2p.LONGEST + 1}", "--batch_size=8")
    assert main(["translate", f"--workdir={run}", f"--from={tmp_path / 'words.txt'}", *how]) == 0
    want = [said(arrays, word) for word in WORDS]
    lines = capsys.readouterr().out.splitlines()
    assert lines == [" ".join(g2p.PHONEMES.symbols[phoneme] for phoneme in phonemes) for phonemes in want]
    assert len(set(lines)) > len(WORDS) / 2
    lengths = [len(phonemes) for phonemes in want]
    assert max(lengths) == 20 and min(lengths) < 20  # some are cut off, and some end


def test_a_vocabulary_a_side_travels_with_the_run(run: Path):
    loaded = api.load(run)
    assert loaded.codec.sizes == (PHONEMES, LETTERS)
    assert loaded.codec.reader.encode("aéz").tolist() == [FIRST_LETTER, UNKNOWN, FIRST_LETTER + 25]
    assert loaded.codec.decode(loaded.codec.encode("HH AH0 L OW1")) == "HH AH0 L OW1"
    places = {"AA0": 4, "B": 22, "CH": 23, "L": 46, "UW": 65, "UW0": 66, "ZH": 73}  # of the net's own list
    assert {name: g2p.PHONEMES.symbols.index(name) for name in places} == places
    gru = 6 * WIDTH * WIDTH + 4 * WIDTH  # of the gates' six biases the four that are not only ever added up
    assert count_parameters(loaded.params) == (LETTERS + 2 * PHONEMES) * WIDTH + PHONEMES + 2 * gru


def test_the_state_is_the_cache_and_does_not_grow(run: Path):
    loaded = api.load(run)
    assert loaded.config.model.memory is None
    short, long = (loaded.model.empty_cache(1, length).states for length in (1, 100))  # type: ignore[attr-defined]
    assert short["layers"][0]["mixer"].shape == long["layers"][0]["mixer"].shape == (1, 1, WIDTH)


def without(arrays: Arrays, name: str) -> Arrays:
    return {other: array for other, array in arrays.items() if other != name}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda a: without(a, "dec_emb"), "is no checkpoint of g2p-en: it has no table dec_emb"),
        (lambda a: a | {"dec_emb": a["dec_emb"][:, :0]}, "width must be at least 1, got 0"),
        (lambda a: without(a, "enc_w_ih"), "enc_w_ih is missing"),
        (lambda a: without(a, "dec_b_hh"), f"dec_b_hh must be [{3 * WIDTH}], is missing"),
        (lambda a: a | {"enc_b_ih": a["enc_b_ih"][1:]}, f"enc_b_ih must be [{3 * WIDTH}], is [{3 * WIDTH - 1}]"),
        (lambda a: a | {"fc_w": a["fc_w"][1:]}, f"fc_w must be [{PHONEMES}, {WIDTH}], is [{PHONEMES - 1}, {WIDTH}]"),
        (lambda a: a | {"more": a["fc_b"]}, f"more [{PHONEMES}] is not of this model"),
        (lambda a: a | {"fc_b": np.array([None])}, "is no npz file of arrays, or is cut off"),
    ],
)
def test_what_is_no_checkpoint_of_it_is_refused(
    arrays: Arrays, tmp_path: Path, change: object, complaint: str, capsys: pytest.CaptureFixture[str]
):
    source = saved(change(arrays), tmp_path / "other.npz")  # type: ignore[operator]
    assert main(["convert", f"--from={source}", f"--to={tmp_path / 'run'}"]) == USER_ERROR
    error = capsys.readouterr().err
    assert complaint in error and "other.npz" in error
    assert [path.name for path in tmp_path.iterdir()] == ["other.npz"]


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_is_cut_off_is_refused(
    arrays: Arrays, tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
):
    source = saved(arrays, tmp_path / "other.npz")
    source.write_bytes(source.read_bytes()[:-100] if content is None else content)
    assert main(["convert", f"--from={source}", f"--to={tmp_path / 'run'}"]) == USER_ERROR
    assert "is no npz file of arrays, or is cut off" in capsys.readouterr().err
