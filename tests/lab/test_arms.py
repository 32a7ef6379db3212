from __future__ import annotations

from typing import Any

import pytest

from txjax.config import Config, Data, Train
from txjax.lab import Matched, Prediction, Study, difference
from txjax.lab.arms import resolve
from txjax.lab.comparison import compare
from txjax.models import build, presets
from txjax.models.costs import count_parameters
from txjax.schema import ConfigError, with_values

BASE = Config(
    model=presets.gpt2(width=32, num_layers=2, num_heads=4, context=16, vocab_size=64),
    data=Data(source="python"),  # type: ignore[arg-type]
    train=Train(steps=4, batch_size=4),
)


def study(factors: dict[str, Any], **more: Any) -> Study:
    first, second, *_ = next(iter(factors.values()))
    return Study("?", BASE, factors, [Prediction("more", difference(first, second))], **more)


def test_an_arm_for_each_combination_with_its_settings():
    arms = resolve(study({"model.norm_placement": ("pre", "post"), "model.num_layers": (2, 4)}), BASE)
    assert [arm.name for arm in arms] == [
        "pre num_layers=2", "pre num_layers=4", "post num_layers=2", "post num_layers=4",
    ]  # fmt: skip
    assert [(arm.config.model.norm_placement, arm.config.model.num_layers) for arm in arms] == [
        ("pre", 2), ("pre", 4), ("post", 2), ("post", 4),
    ]  # fmt: skip


BUNDLE = {
    "norms": {
        "gpt": {"model.norm_placement": "pre", "model.norm": "layer"},
        "other": {"model.norm_placement": "post", "model.norm": "rms"},
    }
}


def test_a_level_of_several_settings_has_to_declare_them():
    with pytest.raises(ConfigError, match=r"'gpt' and 'other' differ in \d undeclared settings, .*norm"):
        resolve(study(BUNDLE), BASE)
    declared = study(BUNDLE, declared=("model.norm", "model.norm_placement"))
    assert [arm.config.model.norm.kind for arm in resolve(declared, BASE)] == ["layer", "rms"]


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"model.norm_placemnt": ("pre", "post")}, "arm pre: model.norm_placemnt is not a field, did you mean"),
        ({"model.norm_placement": ("pre", "pots")}, "arm pots: .*must be one of pre, post, .*did you mean 'post'"),
        ({"model.attention.num_heads": (4, 5)}, "arm num_heads=5: .*num_heads must divide width=32"),
    ],
)
def test_a_level_that_makes_no_config_is_refused_with_its_arm(factors: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        resolve(study(factors), BASE)


@pytest.mark.parametrize("equal", ["parameters", "flops"])
def test_matching_turns_one_knob_until_costs_are_equal(equal: Any):
    factors = {"model.feedforward.dense.activation": ("gelu_tanh", "swiglu")}
    base = with_values(BASE, {"model.feedforward.dense.hidden": 128, "model.width": 64})
    arms = resolve(study(factors, matched=Matched(equal, by="model.feedforward.dense.hidden")), base)
    counts = [count_parameters(build(arm.config.model).shapes()) for arm in arms]
    # a gate makes three matrices of two: two thirds of the hidden width
    assert arms[1].consequences == {"model.feedforward.dense.hidden": (128, 85)}
    assert abs(counts[1] / counts[0] - 1) < 0.005 and counts[1] != counts[0]


def test_matching_that_misses_says_by_how_much():
    factors = {"model.feedforward.dense.activation": ("gelu_tanh", "swiglu")}
    base = with_values(BASE, {"model.feedforward.dense.hidden": 128})
    matched = Matched("parameters", by="model.feedforward.dense.hidden", multiple=64)
    with pytest.raises(
        ConfigError, match=r"no model.*hidden in steps of 64 brings arm 'swiglu' within 0.5%.* misses it by"
    ):
        resolve(study(factors, matched=matched), base)


def test_a_traced_knob_differs_by_its_value_and_not_in_its_program():
    found = compare(BASE, with_values(BASE, {"model.attention.scale": "none"}))
    assert found.operations == {} and found.traced == {"model.scale": (pytest.approx(8**-0.5), 1.0)}
    assert found.identical == found.parameters[0] == found.parameters[1]


def test_the_difference_shows_parameters_operations_and_flops():
    found = compare(BASE, with_values(BASE, {"model.norm_placement": "post", "model.num_layers": 3}))
    assert set(found.settings) == {"model.norm_placement", "model.num_layers"}
    assert found.only_a == ("final_norm/bias", "final_norm/gain") and found.only_b == ()
    assert any(name.startswith("layers/") for name in found.reshaped)
    assert found.operations and found.flops[1] > found.flops[0]
    assert compare(BASE, BASE).lines()[-2:][0] == "operations: the same program"
