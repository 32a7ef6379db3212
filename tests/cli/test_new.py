"""`txjax new ablation`, and docs/first_study.md from its first command to its verdict."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
from small_run import PROJECT, WORDS, session

from txjax.config import Config, Text
from txjax.lab.ablate import load_study

GUIDE = (PROJECT / "docs" / "first_study.md").read_text(encoding="utf-8")
COMMANDS = [line for line in GUIDE.splitlines() if line.startswith("txjax ")]
(STUDY,) = re.findall(r"```python\n(.*?)```", GUIDE, re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")]))
    (tmp_path / "my_text.txt").write_text(" ".join(random.Random(0).choices(WORDS, k=8000)))
    return tmp_path


def words(command: str) -> list[str]:
    return command.split()[1:]


@pytest.mark.long
def test_the_guide_s_own_study_runs_from_its_first_command_to_a_line_of_verdict(folder: Path):
    new, smoke, whole = map(words, COMMANDS)
    assert smoke == [*whole, "--tier=smoke"]
    (made,) = session(new)
    assert made.code == 0 and "txjax ablate experiments/norms" in made.out, made.err
    study = folder / "experiments" / "norms" / "study.py"
    template = load_study(study)  # what was written is a study, too, on the text that was named
    assert isinstance(template.base, Config) and template.base.data.source == Text(name="my_text.txt")
    assert len(study.read_text().splitlines()) <= 40 and len(STUDY.splitlines()) <= 30
    study.write_text(STUDY)
    (ended,) = session(smoke)
    assert ended.code == 0, ended.err
    (line,) = [line for line in ended.out.splitlines() if line.startswith("verdict: ")]
    assert line.startswith("verdict: estimate") and "2 seeds, a verdict needs 6" in line


def test_what_is_there_is_not_written_over_and_a_name_is_a_folder_s(folder: Path):
    _, again, odd, other = session(
        ["new", "ablation", "mine"],
        ["new", "ablation", "mine"],
        ["new", "ablation", "../mine"],
        ["new", "ablation", "mine", "--file=mine.py"],
    )
    assert again.code == 2 and "study.py is there already" in again.err
    assert odd.code == 2 and "NAME is a folder's" in odd.err
    assert other.code == 0 and "txjax ablate mine.py" in other.out and (folder / "mine.py").is_file()
