"""The schema by itself: what values become, what is refused, and what every kind has in common."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

import txjax.config
from txjax.config import FAMILIES, Config, Model, Optim, Train
from txjax.config.flags import override, to_config_dict
from txjax.config.parts import FeedForward
from txjax.nn.feedforwards.none import NoFeedForward
from txjax.schema import (
    ConfigError,
    Kind,
    Section,
    coerce,
    difference,
    field_types,
    flatten,
    from_dict,
    is_family,
    literal,
    to_dict,
)


class Shape(Kind, home="txjax.batch"):  # any module without shapes of its own: these here are all there are
    pass


@dataclass(frozen=True)
class Circle(Shape, kind="circle"):
    radius: float = 1.0


@dataclass(frozen=True)
class Ring(Shape, kind="ring"):
    width: float = 0.5
    inner: Shape = field(default_factory=Circle)


@dataclass(frozen=True)
class Drawing(Section):
    shape: Shape = field(default_factory=Circle)
    more: tuple[Shape, ...] = ()
    size: tuple[int, float] = (1, 1.0)
    title: str = ""
    pen: Literal["thin", "none"] | float = "thin"
    copies: int | None = None
    filled: bool = False


SPELT = {
    **{"none": None, "None": None, "null": None, "True": True, "false": False},
    **{"1e3": 1000.0, "(1, 'a')": (1, "a"), "rope": "rope", "a b": "a b", "": ""},
}


@pytest.mark.parametrize(("text", "value"), SPELT.items())
def test_what_the_text_of_a_flag_spells(text: str, value: Any):
    assert literal(text) == value and type(literal(text)) is type(value)


@pytest.mark.bug("google/ml_collections#33")
@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, 1.0),
        (1e4, int, 10_000),
        ("7", int, 7),
        ("none", int | None, None),
        (None, Literal["none", "rsqrt"] | float, "none"),
        ("0.5", Literal["none", "rsqrt"] | float, 0.5),
        ("rsqrt", Literal["none", "rsqrt"] | float, "rsqrt"),
        ([1, 2], tuple[int, ...], (1, 2)),
        ("(1,2)", tuple[int, int], (1, 2)),
        ("12", str, "12"),
        ("circle", Shape, Circle()),
        ({"kind": "circle", "circle": {"radius": 3}}, Shape, Circle(3.0)),
        ({"kind": "circle"}, Shape | None, Circle()),
        ("none", FeedForward | None, NoFeedForward()),
        (None, FeedForward | None, None),
    ],
)
def test_values_become_the_declared_type(value: Any, hint: Any, expected: Any):
    found = coerce(value, hint, "x")
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"copies": 1.5}, "copies must be int or none, got 1.5"),
        ({"copies": True}, "copies must be int or none, got True"),
        ({"filled": 1}, "filled must be bool, got 1"),
        ({"title": 3}, "title must be str, got 3"),
        ({"pen": "thick"}, "pen must be one of thin, none or float, got 'thick'"),
        ({"size": (1,)}, "size must have 2 entries, got (1,)"),
        ({"size": (1, "x")}, "size[1] must be float, got 'x'"),
        ({"size": 3}, "size must be a tuple such as '(a,b)', got 3"),
        ({"shape": "circl"}, "shape must be one of circle, ring, got 'circl', did you mean 'circle'?"),
        ({"shape": {"kind": "rong"}}, "shape.kind must be one of circle, ring, got 'rong', did you mean 'ring'?"),
        ({"shape": {"circle": {}}}, "shape.kind must be one of circle, ring, got None"),
        (
            {"shape": {"kind": "circle", "circle": {"radus": 1}}},
            "shape.circle.radus is not a field, did you mean 'radius'?",
        ),
        ({"shape": {"kind": "ring", "circle": {"radius": 5}}}, "shape.circle is set, but the kind chosen is 'ring'"),
        ({"shape": {"kind": "ring", "ring": {"inner": {"kind": "x"}}}}, "shape.ring.inner.kind must be one of"),
        ({"more": ("circle", "squre")}, "more[1] must be one of circle, ring, got 'squre'"),
        ({"shpe": "circle"}, "shpe is not a field, did you mean 'shape'?"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_the_field_and_the_value(fields: dict[str, Any], message: str):
    with pytest.raises(ConfigError) as error:
        from_dict(Drawing, fields)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_section_inside_another_names_the_whole_path():
    with pytest.raises(ConfigError, match=r"^model\.attention\.num_heads must divide width=128, got 5: try 4"):
        from_dict(Config, {"model": {"attention": {"num_heads": 5}}})
    with pytest.raises(ConfigError, match=r"^train is a group of fields, got 3$"):
        from_dict(Config, {"train": 3})


def test_json_and_back_for_kinds_inside_kinds_and_tuples():
    drawing = Drawing(shape=Ring(3.0, Ring()), more=(Ring(), Circle(0.5)), copies=2, pen=0.5)
    assert from_dict(Drawing, json.loads(json.dumps(to_dict(drawing)))) == drawing


def test_leaves_and_differences_of_the_chosen_kinds_only():
    one, other = Drawing(shape=Circle(2.0)), Drawing(shape=Ring(), copies=3)
    assert flatten(one)["shape.circle.radius"] == 2.0 and "shape.ring.width" not in flatten(one)
    assert difference(one, one) == {}
    assert difference(one, other)["copies"] == (None, 3)
    assert difference(one, other)["shape.circle.radius"] == (2.0, None)


def test_a_name_is_taken_once():
    with pytest.raises(TypeError, match="kind 'circle' is taken by"):

        @dataclass(frozen=True)
        class Other(Shape, kind="circle"):
            pass


# What holds for every family, kind and leaf of the config that there is


def families(hint: Any = Config, seen: frozenset[Any] = frozenset()) -> set[type[Kind]]:
    """The families that a config can hold, at any depth."""
    if hint in seen:
        return set()
    seen |= {hint}
    inner: list[Any] = []
    found = set()
    if is_family(hint):
        found.add(hint)
        inner = list(hint.members().values())
    elif isinstance(hint, type) and issubclass(hint, Section):
        inner = list(field_types(hint).values())
    else:
        inner = [arm for arm in getattr(hint, "__args__", ())]
    return found.union(*(families(arm, seen) for arm in inner))


def test_every_family_is_known_by_name():
    assert families() == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_kind_is_importable_comes_back_from_json_and_says_what_it_is(family: type[Kind]):
    for name, member in family.members().items():
        assert getattr(txjax.config, member.__name__) is member
        kind = member()
        assert kind.kind == name
        assert coerce(json.loads(json.dumps(to_dict(kind))), family, "x") == kind
        assert member.__doc__ and not member.__doc__.startswith(f"{member.__name__}(")


@pytest.mark.bug("google/ml_collections#33")
def test_every_leaf_can_be_set_from_the_command_line_to_what_it_is():
    """Of the default config, with each family's default kind."""
    config = Config(model=Model(vocab_size=7), optim=Optim(), train=Train(steps=3))
    leaves = dict(_leaves(to_config_dict(config)))
    assert len(leaves) > 100
    chosen = flatten(config)
    for path, value in leaves.items():
        if path in chosen or path.endswith(".kind"):
            assert override(config, [f"--config.{path}={value}"]) == config, path


def _leaves(view: Any, path: str = "") -> Any:
    for key, value in view.items():
        name = f"{path}.{key}" if path else key
        if hasattr(value, "items"):
            yield from _leaves(value, name)
        else:
            yield name, value


@pytest.mark.parametrize(
    ("flag", "read"),
    [
        ("optim.groups=[{'match': 'norm', 'weight_decay': 0}]", lambda c: c.optim.groups[0].weight_decay == 0.0),
        ("optim.optimizer=muon", lambda c: c.optim.optimizer.kind == "muon"),
        ("model.position.rope.scaling=yarn", lambda c: c.model.position.scaling.kind == "yarn"),
        ("mesh.parameter_rules=(('embed',None),)", lambda c: c.mesh.parameter_rules == (("embed", None),)),
        ("log.prompt=a=b --c", lambda c: c.log.prompt == "a=b --c"),
        ("log.prompt=two\nlines", lambda c: c.log.prompt == "two\nlines"),
        ("log.prompt=", lambda c: c.log.prompt == ""),
        ("data.source=my 'own' text.txt", lambda c: c.data.source.name == "my 'own' text.txt"),
        ("model.first_layers=[{'feedforward': 'none'}]", lambda c: c.model.first_layers[0].feedforward.kind == "none"),
    ],
)
def test_flags_that_are_easy_to_get_wrong(flag: str, read: Any):
    position = ["--config.model.position=rope"] if "rope" in flag else []
    assert read(override(Config(), [*position, f"--config.{flag}"]))


def test_what_a_field_said_in_an_earlier_version_is_read_as_todays():
    """The config.json of an old run, which has every field."""
    old = to_dict(Config())
    assert old["model"]["attention"]["qk_norm"] == "none"
    for then, now in ((False, "none"), (True, "head")):
        old["model"]["attention"]["qk_norm"] = then
        read = from_dict(Config, old)
        assert read.model.attention.qk_norm == now
        assert to_dict(read)["model"]["attention"]["qk_norm"] == now
    old["model"]["attention"]["qk_norm"] = ["head"]
    with pytest.raises(ConfigError, match=r"model.attention.qk_norm must be one of none, head, all, got \['head'\]"):
        from_dict(Config, old)


def test_a_flag_may_be_a_bare_switch_and_the_last_of_two_counts():
    assert override(Config(), ["--noconfig.model.attention.qkv_bias"]).model.attention.qkv_bias is False
    assert override(Config(), ["--config.model.attention.sinks"]).model.attention.sinks is True
    assert override(Config(), ["--config.train.steps=1", "--config.train.steps=2"]).train.steps == 2
    assert override(Config(), ["--config.train.seed", "-1"]).train.seed == -1
