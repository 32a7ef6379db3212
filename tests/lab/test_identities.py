"""The checks of experiments/identities, and what holds of any check."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from txjax.lab.identities import Identity, collect, examine, identity, table, to_json, wrong
from txjax.schema import ConfigError

FOLDER = Path(__file__).parents[2] / "experiments" / "identities"
IDENTITIES = collect(FOLDER)


# four models, each compiled twice; tests/contracts does so for all
CASES = [pytest.param(one, marks=pytest.mark.slow) if one.claim == "C15" else one for one in IDENTITIES]


@pytest.mark.parametrize("one", CASES, ids=lambda one: f"{one.claim}-{one.deviation.__name__}")
def test_it_holds_and_its_wrong_form_fails(one: Identity):
    (finding,) = examine([one])
    assert finding.passed, finding


def test_every_exact_claim_is_among_them():
    exact = {"C01", *(f"C{n:02}" for n in range(3, 30)), "C40"}
    assert exact <= {one.claim for one in IDENTITIES}


@pytest.mark.parametrize(
    ("deviation", "holds", "fails"), [(0.0, True, False), (0.2, False, True), (math.nan, False, False)]
)
def test_a_deviation_that_is_not_a_number_passes_nothing(deviation: float, holds: bool, fails: bool):
    both = [make("C00", "it is 0", 0.1, "why")(lambda: deviation) for make in (identity, wrong)]
    assert [finding.passed for finding in examine(both)] == [holds, fails]


def test_a_row_says_what_was_found_and_what_was_allowed():
    findings = examine([identity("C00", "it is 0", 0.1, "three digits")(lambda: 0.2)])
    assert table(findings)[-1] == "| C00 | it is 0 | 0.2 | at most 0.1 (three digits) | NOT AS EXPECTED |"
    assert to_json(findings)[0] | {"seconds": 0} == {
        "claim": "C00", "what": "it is 0", "deviation": 0.2, "tolerance": 0.1, "because": "three digits",
        "expected": "holds", "passed": False, "seconds": 0,
    }  # fmt: skip


def test_a_folder_without_checks_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="has no file with an @identity"):
        collect(tmp_path)
