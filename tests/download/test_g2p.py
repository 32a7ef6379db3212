"""g2p-en's published weights, fetched from the package index: its pronunciations of 200 words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from txjax.cli import main
from txjax.interop.g2p import LONGEST

pytestmark = pytest.mark.download
GOLDEN = Path(__file__).parents[1] / "golden" / "g2p.tsv"
PACKAGE = "g2p-en==2.1.0", "2a7aabf1fc7f270fcc3349881407988c9245173c2413debbe5432f4a4f31319f"


def test_200_words_are_pronounced_as_the_package_does(
    unpacked: Callable[[str, str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words, phonemes = zip(*(line.split("\t") for line in GOLDEN.read_text().splitlines()), strict=True)
    assert len(words) == len(set(words)) == 200
    (tmp_path / "words.txt").write_text("".join(f"{word}\n" for word in words))
    source, run = unpacked(*PACKAGE) / "g2p_en" / "checkpoint20.npz", tmp_path / "run"
    assert main(["convert", f"--from={source}", f"--to={run}"]) == 0
    capsys.readouterr()
    how = ("--beam=1", "--stop=full", f"--longest={LONGEST + 1}")
    assert main(["translate", f"--workdir={run}", f"--from={tmp_path / 'words.txt'}", *how]) == 0
    assert capsys.readouterr().out.splitlines() == list(phonemes)
