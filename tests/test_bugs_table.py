"""docs/bugs.toml and scripts/bugs.py: every public bug has its tests, or a reason why it has none."""

from __future__ import annotations

from pathlib import Path

import bugs
import pytest

ROOT = Path(__file__).parents[1]

TABLE = """
[[bug]]
id = "X1"
title = "A guarded one."
sources = ["a/b#1", "c/d#2"]
state = "guarded"

[[bug]]
id = "X2"
title = "Shares a report with the first."
sources = ["a/b#1"]
state = "open"
part = "recurrent"
"""


@pytest.fixture
def project(tmp_path: Path):
    """A project of one table and one test file, and the exit code of `make bugs` there."""

    def run(test: str, table: str = TABLE) -> int:
        for file, text in (("docs/bugs.toml", table), ("tests/deep/test_a.py", test)):
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)
        return bugs.main(tmp_path)

    return run


def test_every_entry_of_this_project_is_met(capsys: pytest.CaptureFixture[str]):
    assert bugs.main(ROOT) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("import pytest\n@pytest.mark.bug('c/d#2')\ndef test_x(): pass", "test_a.py::test_x"),
        ("@pytest.mark.bug('a/b#1', 'X1')\nclass TestX:\n    def test_y(self): pass", "test_a.py::TestX"),
        ("pytestmark = pytest.mark.bug('c/d#2')", "test_a.py"),
        (
            "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.bug('X1'))])\ndef test_z(n): pass",
            "test_a.py::test_z",
        ),
    ],
)
def test_a_marked_test_is_printed_below_its_entry(project, capsys, test: str, name: str):
    assert project(test) == 0
    out = capsys.readouterr().out
    assert out.index("X1") < out.index(f"-> tests/deep/{name}\n") < out.index("X2")
    assert "-> open: recurrent" in out


@pytest.mark.parametrize(
    ("test", "complaint"),
    [
        ("", "X1: no test is marked with it: A guarded one."),
        ("@pytest.mark.bug('a/b#1')\ndef test_x(): pass", "a/b#1 is in X1, X2: add the id of the one that is meant"),
        ("@pytest.mark.bug('X1', 'a/b#9')\ndef test_x(): pass", "no entry of docs/bugs.toml has a/b#9"),
        ("@pytest.mark.bug(*REPORTS)\ndef test_x(): pass", "write out what mark.bug(...) names"),
    ],
)
def test_what_is_missing_or_unclear_is_named(project, capsys, test: str, complaint: str):
    assert project(test) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('state = "guarded"', 'state = "gaurded"', "X1: state must be one of guarded"),
        ('part = "recurrent"', "", "X2: a bug that is open has id, part, sources, state, title"),
        ('state = "guarded"', 'state = "guarded"\nreason = "none"', "X1: a bug that is guarded has"),
        ('["a/b#1", "c/d#2"]', '["a/b PR #1"]', "X1: sources must be a list of owner/repo#n"),
        ('id = "X2"', 'id = "X1"', "id X1 is taken twice"),
        ('part = "recurrent"', 'part = "recurrent"\nby = "x.py"', "X2: a bug that is open has"),
        ('state = "open"\npart = "recurrent"', 'state = "measured"\nby = "benchmarks/x.py"', "X2: there is no benchm"),
    ],
)
def test_a_malformed_entry_is_named(project, capsys, old: str, new: str, complaint: str):
    assert old in TABLE
    assert project("@pytest.mark.bug('X1')\ndef test_x(): pass", TABLE.replace(old, new)) == 1
    assert complaint in capsys.readouterr().err
