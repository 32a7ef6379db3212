"""docs/claims.toml and scripts/claims.py: the register of claims and the code agree."""

from __future__ import annotations

from pathlib import Path

import claims
import pytest

from txjax.lab.claims import read_register

ROOT = Path(__file__).parents[1]
TABLE = """
[[claim]]
id = "C01"
statement = "A tested one."
class = "identity"
source = "S0"
state = "tested"

[[claim]]
id = "C02"
statement = "One of a study."
class = "measured"
source = "S0"
state = "registered"
by = ["experiments/a/study.py"]

[[claim]]
id = "C03"
statement = "One that waits."
class = "measured"
source = "S0"
state = "open"
part = "something"

[[error]]
id = "E1"
said = "This."
right = "That."
source = "S0"
"""
TEST = "import pytest\n@pytest.mark.claim('C01', 'E1')\ndef test_x(): pass"
STUDY = "Prediction('x', f, claim='C02')"


@pytest.fixture
def project(tmp_path: Path):
    """A project of one table, test, study and identity, and the exit code of `make claims` there."""

    def run(test: str = TEST, study: str = STUDY, table: str = TABLE, identity: str = "") -> int:
        files = {"docs/claims.toml": table, "tests/lab/test_a.py": test, "experiments/a/study.py": study}
        for file, text in (files | {"experiments/identities/b.py": identity}).items():
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(text)
        return claims.main(tmp_path)

    return run


def test_the_register_of_this_project_agrees_with_its_code(capsys: pytest.CaptureFixture[str]):
    assert claims.main(ROOT) == 0, capsys.readouterr().err


def test_every_claim_and_error_of_the_tutorials_is_in_it():
    ids = read_register(ROOT / "docs" / "claims.toml").ids
    assert ids[-38:] == [f"E{n}" for n in range(1, 39)]
    assert set(ids[:-38]) == {*(f"C{n:02}" for n in range(1, 92)), "C02b", "C46b", "C46c"}


def test_tests_identities_and_studies_are_printed_below_their_claim(project, capsys):
    assert project(identity="@wrong('C01', 'x', 0.1, 'y')\ndef columns(): ...") == 0
    out = capsys.readouterr().out
    test = "-> tests/lab/test_a.py::test_x"
    places = ["C01", "-> experiments/identities/b.py::columns", test, "C02", "-> experiments/a/study.py"]
    places += ["C03", "-> open: something", "E1 ", test]
    found = 0
    for place in places:
        found = out.index(place, found)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"test": ""}, "C01: no test and no identity is marked with it: A tested one."),
        ({"study": ""}, "C02: experiments/a/study.py is no study that predicts it"),
        ({"study": STUDY + ", Prediction(claim='C03')"}, "C03: it is open in the register, and experiments/a/study.py"),
        ({"study": STUDY + ", Prediction(claim='C9')"}, "experiments/a/study.py: the register has no C9"),
        ({"test": TEST.replace("E1", "E7")}, "test_a.py::test_x: the register has no E7"),
        ({"test": TEST.replace("'E1'", "*IDS")}, "write out what mark.claim(...) names"),
        ({"table": TABLE.replace('"E1"', '"C01"')}, "id C01 is taken twice"),
        (
            {"table": TABLE.replace('"open"', '"opne"')},
            "C03: state must be one of tested, registered, open, untestable",
        ),
        ({"table": TABLE.replace('part = "something"', "")}, "C03: it has the fields class, id, part, source, state"),
        ({"table": TABLE.replace('"identity"', '"exact"')}, "C01: class must be one of identity, measured"),
        ({"table": TABLE.replace('right = "That."', "")}, "E1: it has the fields id, right, said, source"),
    ],
)
def test_where_they_disagree_it_is_named(project, capsys, change: dict[str, str], complaint: str):
    assert project(**change) == 1
    assert complaint in capsys.readouterr().err
