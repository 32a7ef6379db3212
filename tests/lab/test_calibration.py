"""scripts/calibrate.py: verdicts err as seldom as docs/statistics.md says. 2,000 studies: experiments/calibration."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import calibrate  # noqa: E402

HELD = [scenario for scenario in calibrate.SCENARIOS if scenario.held]


def test_verdicts_err_as_seldom_as_promised():
    """40 studies of each kind, counted together: without Holm, say, 12 % of the families would err."""
    tallies = [calibrate.simulate(scenario, 40) for scenario in HELD]
    assert min(tally.judged for tally in tallies) >= 30
    total = calibrate.Tally(*(sum(counts) for counts in zip(*map(dataclasses.astuple, tallies), strict=True)))
    assert total.share("reproduced") <= calibrate.ceiling(calibrate.FALSE, total.judged)
    assert total.share("reversed") <= calibrate.ceiling(calibrate.FALSE, total.judged)
    assert total.share("family") <= calibrate.ceiling(calibrate.FAMILY, total.judged)
    assert total.share("covered") >= calibrate.COVERAGE
    assert total.share("found") >= 0.5  # nor are they bought by never finding anything


@pytest.mark.parametrize("scenario", HELD, ids=lambda s: s.name)
def test_the_committed_calibration_keeps_its_promises(scenario):
    results = json.loads((ROOT / "experiments" / "calibration" / "results.json").read_text(encoding="utf-8"))
    tally = calibrate.Tally(**results["scenarios"][scenario.name])
    assert tally.studies >= 2000
    assert calibrate.broken(scenario, tally) == []


def test_a_broken_promise_is_seen():
    tally = calibrate.Tally(studies=2000, judged=2000, reproduced=80, reversed=40, family=80, covered=1800)
    found = calibrate.broken(HELD[0], tally)
    assert [text.split(": ")[1].split(" ")[0] for text in found] == ["reproduced", "coverage"]


def test_choosing_rates_on_reported_seeds_is_worse():
    """The winner's curse, in the case that has it: one flat curve and one sharp."""
    results = json.loads((ROOT / "experiments" / "calibration" / "results.json").read_text(encoding="utf-8"))
    tally = calibrate.Tally(**results["scenarios"]["flat against sharp rate curves"])
    assert tally.share("naive") > 2 * tally.share("reproduced")
