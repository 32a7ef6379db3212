"""txjax/lab/power.py: what so many seeds can find, and studies that are refused because they can find nothing."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from txjax.config import Config
from txjax.lab import Prediction, Row, Study, Table, ablate, difference, final, statistics
from txjax.lab.ablate import Options, Outcome, run_study
from txjax.lab.cells import Cell, Result
from txjax.lab.execution import Execution, Silent
from txjax.lab.ledger import Ledger
from txjax.lab.power import Outlook, Plan, outlooks, refuse_hopeless
from txjax.lab.tuning import choose
from txjax.schema import ConfigError, with_values
from txjax.train.stop import Stop

RATE = "optim.learning_rate"
WORSE = Prediction("worse", difference("post", "pre"), margin=0.02)
ALIKE = Prediction("alike", difference("post", "pre"), "same", margin=0.02)


def study(*predictions: Prediction, **more: Any) -> Study:
    return Study(
        question="?",
        base=with_values(Config(), {"model.vocab_size": 16, "model.width": 16}),
        factors={"model.norm_placement": ("pre", "post")},
        predictions=predictions or [WORSE],
        **more,
    )


# ---------------------------------------------------------------- before the first run


def plan(seeds: int, *predictions: Prediction, **more: Any) -> Plan:
    return Plan.of(study(*predictions, **more), seeds)


def test_the_card_says_what_is_found_with_80_percent_at_the_strictest_level():
    (line,) = plan(8).lines()
    assert "8 seeds find effects from 1.16 s_d on, with 80 % (level 0.05;" in line  # the textbook's number
    (line,) = plan(8, WORSE, ALIKE, Prediction("more", difference("post", "pre"))).lines()
    least = statistics.detectable(8, 1.0, 0.05 / 3)
    margin = statistics.detectable_margin(8, 1.0, 0.05 / 3)
    assert f"find effects from {least:.2f} s_d on and show arms equal within {margin:.2f} s_d" in line
    assert "level 0.0167, Holm over 3" in line
    assert plan(8, Prediction("aside", difference("post", "pre"), primary=False)).lines() == []


@pytest.mark.parametrize("n", [6, 8, 20])
def test_the_smallest_margin_is_found_with_80_percent(n: int):
    assert statistics.equivalence_power(statistics.detectable_margin(n, 3.0), 3.0, n) == pytest.approx(0.8, abs=1e-6)
    assert statistics.detectable_margin(1, 3.0) == math.inf


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_least_spread_lies_below_the_true_one_nine_times_in_ten(n: int):
    draws = np.random.default_rng(n).normal(size=(20_000, n)).std(1, ddof=1)
    below = np.mean([statistics.least_spread(s, n) < 1 for s in draws])
    assert below == pytest.approx(0.9, abs=0.01)


def many(count: int) -> list[Prediction]:
    return [Prediction(str(i), difference("post", "pre")) for i in range(count)]


@pytest.mark.parametrize(
    ("seeds", "predictions", "looks", "least"),
    [
        (4, [WORSE], 1, 6),
        (5, [ALIKE], 1, 6),
        (6, many(3), 1, 7),  # 2 / 2^6 is more than .05 / 3
        (7, many(3), 2, 8),
        (8, many(7), 1, 9),
    ],
)
def test_seeds_that_can_settle_nothing_are_refused_with_their_number(
    seeds: int, predictions: list[Prediction], looks: int, least: int
):
    with pytest.raises(ConfigError, match=rf"^{seeds} seeds can never settle .*take --seeds={least}, or .*--anyway$"):
        plan(seeds, *predictions, looks=looks).refuse_futile()
    plan(least, *predictions, looks=looks).refuse_futile()


def test_equality_needs_no_exact_test():
    plan(6, *many(3), ALIKE).refuse_futile()
    assert "find no effect however large and show arms equal within" in plan(6, *many(3), ALIKE).lines()[0]


# ---------------------------------------------------------------- after tuning


def tuning_table(differences: list[float], at: float = 1e-3) -> Table:
    """Of both arms at two rates; post minus pre is `differences` at the chosen one, 1e-3."""
    rows = []
    for seed, d in enumerate(differences):
        for rate in (1e-3, 3e-3):
            for arm, loss in (("pre", 2.0), ("post", 2.0 + d)):
                value = loss + 5 * abs(rate - at) * 1000
                rows.append(
                    Row(
                        {"model.norm_placement": arm},
                        1000 + seed,
                        {"val/loss": value, "test/loss": value},
                        phase="tuning",
                        tuned={RATE: rate},
                    )
                )
    return Table(tuple(rows))


def seen(differences: list[float], *predictions: Prediction, seeds: int = 8) -> tuple[Plan, list[Outlook]]:
    table = tuning_table(differences)
    about = study(*predictions, tuned={RATE: (1e-3, 3e-3)}, metric=final("test/loss"))
    own = Plan.of(about, seeds)
    return own, outlooks(own, about, table, choose(table, final("val/loss")), "cpu")


def ledger(folder: Path, seeds: int = 8) -> Ledger:
    return Ledger.open(folder, {"name": "?"}, study().registration({"seeds": seeds}), explore=False)


def test_after_tuning_it_is_said_in_the_metrics_unit():
    own, (outlook,) = seen([0.1, 0.3])
    assert outlook.numbers == pytest.approx([0.1, 0.3]) and outlook.spread == pytest.approx(0.2 / math.sqrt(2))
    found = statistics.detectable(8, outlook.spread)
    assert f"8 seeds find an effect of {found:.2g} nats with 80 %, by the spread over 2 tuning seeds" in outlook.line(
        own
    )
    assert outlook.line(own).endswith("its margin is 0.02")


def test_a_hopeless_study_is_refused_with_the_seeds_that_it_would_take(tmp_path: Path):
    noise = [0.4, -0.41, 0.02]
    own, found = seen(noise)
    with pytest.raises(ConfigError, match="hopeless with 8 seeds") as refused:
        refuse_hopeless(own, found, ledger(tmp_path))
    (number,) = map(int, re.findall(r"take --seeds=(\d+)", str(refused.value)))
    assert number == statistics.needed(0.02, found[0].spread)
    refuse_hopeless(*seen(noise, seeds=number), ledger(tmp_path))  # and not with as many


def test_an_effect_that_shows_or_one_prediction_with_a_chance_is_no_hopeless_study(tmp_path: Path):
    refuse_hopeless(*seen([0.3, 0.1, 0.2]), ledger(tmp_path))  # far above the margin, and seen
    noise = [0.4, -0.41, 0.02]
    wide = Prediction("alike", difference("post", "pre"), "same", margin=5.0)
    with pytest.raises(ConfigError, match="the other predictions no fewer"):
        refuse_hopeless(*seen(noise, WORSE, ALIKE), ledger(tmp_path))
    refuse_hopeless(*seen(noise, WORSE, wide), ledger(tmp_path))


def test_a_same_that_is_plainly_not_so_is_settled_as_well(tmp_path: Path):
    tight = Prediction("alike", difference("post", "pre"), "same", margin=0.001)
    refuse_hopeless(*seen([0.5, 0.6, 0.4], tight), ledger(tmp_path))
    own, (outlook,) = seen([0.5, 0.6, 0.4], tight)
    assert outlook.needed(own, outlook.spread) == statistics.needed(0.499, outlook.spread)
    with pytest.raises(ConfigError, match="hopeless"):
        refuse_hopeless(*seen([0.05, -0.06, 0.0], tight), ledger(tmp_path))


def test_an_at_least_is_settled_by_its_distance_from_the_bound(tmp_path: Path):
    far = Prediction("much", difference("post", "pre"), "at_least", least=0.1)
    near = Prediction("much", difference("post", "pre"), "at_least", least=0.5)
    refuse_hopeless(*seen([0.5, 0.6, 0.4], far), ledger(tmp_path))
    with pytest.raises(ConfigError, match="hopeless"):
        refuse_hopeless(*seen([0.5, 0.6, 0.41], near), ledger(tmp_path))


def test_what_the_tuning_seeds_do_not_tell_refuses_nothing(tmp_path: Path):
    for differences in ([0.2], [0.0, 0.0]):
        own, found = seen(differences)
        assert "do not tell how far seeds lie apart" in found[0].line(own)
        refuse_hopeless(own, found, ledger(tmp_path))


# ---------------------------------------------------------------- the course of a study


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells whose losses differ from arm to arm by the seed alone, by nothing in the mean; and no report."""

    def train(_: Execution, cell: Cell) -> Result:
        noise = 0.05 * math.cos(2 * math.pi * cell.seed / 3) if cell.arm.name == "post" else 0.0
        loss = 9 + noise + abs(math.log(cell.tuned[RATE] / 3e-3))
        return Result("finished", 1, 0.0, {"val/loss": loss, "test/loss": loss}, 99.0)

    monkeypatch.setattr(Execution, "train", train)
    monkeypatch.setattr(Execution, "price", lambda *_: (0.0, 0.0))
    monkeypatch.setattr(Execution, "with_vocab", lambda _, config: config)
    monkeypatch.setattr(ablate.report, "write", lambda _: None)
    monkeypatch.setattr(ablate.boards, "write", lambda _: None)


def run(folder: Path, **options: Any) -> Outcome:
    about = study(tuned={RATE: (1e-3, 3e-3, 1e-2)}, tuning_seeds=3, metric=final("test/loss"))
    return run_study(about, folder / "noise.py", folder / "out", Options(**options), Silent(), Stop())


def test_it_is_refused_before_a_reported_cell_runs_and_may_then_take_the_seeds(tmp_path: Path, made_up: None):
    with pytest.raises(ConfigError, match=r"hopeless with 8 seeds.*--anyway") as refused:
        run(tmp_path)
    assert not list((tmp_path / "out" / "cells").glob("*seed=0*"))
    (number,) = map(int, re.findall(r"take --seeds=(\d+)", str(refused.value)))
    outcome = run(tmp_path, seeds=number)
    assert outcome.ledger.exploratory is None and len(outcome.verdicts[0].numbers) == number
    assert run(tmp_path, seeds=number + 1).ledger.exploratory is not None  # now that results have been seen


def test_anyway_runs_it(tmp_path: Path, made_up: None):
    (verdict,) = run(tmp_path, anyway=True).verdicts
    assert verdict.word == "inconclusive" and verdict.n == 8
    assert run(tmp_path).verdicts == (verdict,)  # what has ended is judged again without being asked


def test_too_few_seeds_are_refused_before_anything_runs_but_where_no_verdict_is_wanted(tmp_path: Path, made_up: None):
    with pytest.raises(ConfigError, match="4 seeds can never settle the study's prediction"):
        run(tmp_path, seeds=4)
    assert not (tmp_path / "out" / "study.json").exists() and not (tmp_path / "out" / "cells").exists()
    for options in ({"explore": True}, {"anyway": True}, {"tier": "smoke"}):
        (verdict,) = run(tmp_path / next(iter(options)), seeds=2, **options).verdicts
        assert verdict.word == "estimate"
