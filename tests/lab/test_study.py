from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from txjax.config import Config
from txjax.lab import Prediction, Study, area_under, at, difference, final, interaction, log_ratio, slope, steps_to
from txjax.lab.ablate import load_study
from txjax.lab.contrasts import bind, describe
from txjax.lab.power import Plan
from txjax.lab.study import digest
from txjax.lab.table import Seed
from txjax.schema import ConfigError

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FACTORS = {"model.norm_placement": ("pre", "post"), "model.num_layers": (2, 4, 8)}
# post is worse by log2 of the layers, in units of 0.5
SEED = Seed(
    [
        ({"model.norm_placement": p, "model.num_layers": n}, 2.0 + (0.5 * math.log2(n) if p == "post" else 0.0))
        for p in ("pre", "post")
        for n in (2, 4, 8)
    ]
)


@pytest.mark.parametrize(
    ("contrast", "value"),
    [
        (difference("post", "pre"), 1.0),
        (difference("pre", "post", over="norm_placement"), -1.0),
        (difference(8, 2), 0.5),
        (log_ratio("post", "pre"), math.log(1.5)),
        (slope(difference("post", "pre"), over="model.num_layers"), 0.5 / math.log(2)),
        (interaction(difference("post", "pre"), 8, 2), 1.0),
        (at(difference("post", "pre"), 4), 1.0),
        (at(difference("post", "pre"), 8), 1.5),
        (lambda seed: seed.mean(), 2.5),
    ],
)
def test_contrasts(contrast: Any, value: float):
    assert bind(contrast, FACTORS)(SEED) == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("contrast", "message"),
    [
        (difference("pots", "pre"), "no factor has the levels 'pots' and 'pre', did you mean 'post'"),
        (slope(difference("post", "pre"), over="layers"), "over='layers' is not a factor"),
        (slope(difference(8, 2), over="model.norm_placement"), "slope needs two positive numbers"),
        (difference("post", 2), "no factor has the levels 'post' and 2"),
    ],
)
def test_a_contrast_of_what_is_not_there_is_refused_with_the_prediction(contrast: Any, message: str):
    with pytest.raises(ConfigError, match=f"prediction 'worse': {message}"):
        study(predictions=[Prediction("worse", contrast)])


def study(**changes: Any) -> Study:
    fields: dict[str, Any] = {
        "question": "?",
        "base": Config(),
        "factors": FACTORS,
        "predictions": [Prediction("worse", difference("post", "pre"))],
    }
    return Study(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"factors": {}}, "at least one factor"),
        ({"factors": {"model.width": (4,)}}, "model.width needs at least two levels"),
        ({"tiers": {"cpus": {}}}, "'cpus' must be one of smoke, cpu, device, paper, did you mean 'cpu'"),
        ({"predictions": [Prediction("a", difference("post", "pre"))] * 2}, "two are called 'a'"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        study(**changes)


def test_a_prediction_of_at_least_needs_its_number():
    with pytest.raises(ConfigError, match="kind at_least and the number `least` go together"):
        Prediction("fast", log_ratio("post", "pre"), kind="at_least")


@pytest.mark.parametrize(
    "changes",
    [
        {"predictions": [Prediction("worse", difference("post", "pre"), margin=0.1)]},
        {"predictions": [Prediction("worse", difference("pre", "post"))]},
        {"predictions": [Prediction("worse", lambda seed: seed.mean())]},
        {"metric": final("val/loss")},
        {"tuned": {"optim.learning_rate": (3e-3, 1e-2)}},
        {"looks": 2},
        {"measure": lambda config, seed: {"loss": 1.0}},
        {"probe": lambda trained: {"loss": 1.0}},
    ],
)
def test_registration_changes_with_whatever_a_verdict_rests_on(changes: dict[str, Any]):
    before = digest(study().registration({"seeds": 8}))
    assert digest(study(question="another wording").registration({"seeds": 8})) == before
    assert digest(study(**changes).registration({"seeds": 8})) != before
    assert digest(study().registration({"seeds": 9})) != before


def test_read_outs_of_a_curve():
    rows = [{"step": step, "train/loss": 4.0 - step / 50, "val/accuracy": step / 100} for step in range(1, 101)]
    assert final("train/loss").read(rows, 100).value == pytest.approx(4.0 - 98 / 50)  # steps 96 to 100
    assert area_under("train/loss").read(rows, 100).value == pytest.approx(4.0 - 50.5 / 50)
    reached = steps_to("val/accuracy", 0.4).read(rows, 100)
    assert math.exp(reached.value) == pytest.approx(40)
    assert reached.resolution == pytest.approx(1 / 40 / math.sqrt(12)) and not reached.censored
    never = steps_to("val/accuracy", 1.5).read(rows, 100)
    assert math.exp(never.value) == pytest.approx(100) and never.censored
    assert math.isnan(final("test/loss").read(rows, 100).value)


def test_final_of_a_figure_that_is_logged_rarely_is_its_last():
    rows = [{"step": 50, "val/loss": 3.0}, {"step": 100, "val/loss": 2.0}]
    assert final("val/loss").read(rows, 100).value == 2.0


def test_what_falls_back_is_lower_where_learning_is_faster_as_steps_are():
    metric = steps_to("val/accuracy", 0.9)
    assert metric.fallback is not None
    fast = [{"step": s, "val/accuracy": min(1.0, s / 50)} for s in range(1, 101)]
    slow = [{"step": s, "val/accuracy": s / 200} for s in range(1, 101)]
    assert metric.fallback.read(fast, 100).value < metric.fallback.read(slow, 100).value


def test_the_settings_behind_a_level_are_registered_and_not_its_name_alone():
    def of(width: int) -> str:
        levels = {"small": {"model.width": 32}, "large": {"model.width": width}}
        return digest(study(factors={"size": levels}, predictions=[]).registration({"seeds": 8}))

    assert of(64) == of(64) != of(128)


def test_a_contrast_of_a_function_is_registered_by_its_source():
    def own(seed: Seed) -> float:
        return seed.mean()

    assert "return seed.mean()" in describe(slope(own, over="model.num_layers"))
    assert describe(slope(own, over="model.num_layers")) == describe(slope(own, over="model.num_layers"))
    assert describe(slope(difference("post", "pre"), "x")) == (
        "Slope(of=Difference(high='post', low='pre', over=None), over='x')"
    )


OWN = [path for path in EXPERIMENTS.glob("*/*.py") if "def get_study" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("file", sorted(OWN), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_projects_own_studies_can_be_registered_and_settled(file: Path):
    own = load_study(file)
    Plan.of(own, own.seeds_of("cpu")).refuse_futile()
    assert own.registration({})["measured"] == own.measured
