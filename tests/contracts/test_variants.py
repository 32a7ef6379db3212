"""The suite tries everything there is to choose: no field, word or kind of a model is left out silently."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest
from variants import APART, CHANGES, NUMBERS, PAIRS, SINGLES, UNFIT, UNUSABLE, UNVARIED, VARIANTS, fits, unvaried

from txjax.config import Model
from txjax.schema import Kind, Section, field_types, is_family

Choice = tuple[type[Section], str, Any]  # a section, one of its fields, and a value


def sections(hint: Any) -> Iterator[type[Section]]:
    """Every section that a value of this type can hold, at any depth: all members of families among them."""
    if is_family(hint):
        for member in hint.members().values():
            yield from sections(member)
    elif dataclasses.is_dataclass(hint):
        yield hint  # type: ignore[misc]
        for inner in field_types(hint).values():  # type: ignore[arg-type]
            yield from sections(inner)
    else:
        for inner in get_args(hint):
            yield from sections(inner)


def literals(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif hint is bool:
        yield from (False, True)
    else:
        for inner in get_args(hint):
            yield from literals(inner)


def choices(section: Any) -> Iterator[Choice]:
    """What a config has chosen, at any depth."""
    for name in field_types(type(section)):
        value = getattr(section, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Section):
                yield from choices(item)
            yield type(section), name, type(item) if isinstance(item, Kind) else item


OFFERED = {section for section in sections(Model) if not issubclass(section, APART)}
TRIED = {choice for variant in VARIANTS for choice in choices(variant.model)}


def test_every_kind_is_tried():
    kinds = {section for section in OFFERED if issubclass(section, Kind)}
    assert len(kinds) >= 18
    assert kinds <= {value for _, _, value in TRIED if isinstance(value, type)}


def test_every_word_is_tried():
    words = {
        (section, name, word)
        for section in OFFERED
        for name, hint in field_types(section).items()
        for word in literals(hint)
        if word not in UNUSABLE and not unvaried(section, name)
    }
    assert len(words) >= 50
    assert words <= TRIED


def test_every_number_is_tried_or_left_out_for_a_reason():
    numbers = {
        name
        for section in OFFERED
        for name, hint in field_types(section).items()
        if {int, float} & {hint, *get_args(hint)}
    }
    assert numbers <= NUMBERS.keys() | UNVARIED.keys()
    assert {"num_kv_heads", "softcap", "residual", "window"} <= {
        name for _, name, value in TRIED if value == NUMBERS.get(name, (None, None))[1]
    }


def test_every_change_of_one_field_is_a_model_or_known_not_to_be():
    assert {str(variant).partition(",")[2] for variant in CHANGES if not fits(variant)} <= UNFIT.keys()


def test_changes_come_one_at_a_time_and_in_pairs():
    assert len(VARIANTS) == len(set(map(str, VARIANTS)))
    assert all(len(variant.changes) == 1 for variant in SINGLES)
    assert all(fits(variant) for variant in VARIANTS)
    assert len(VARIANTS[-PAIRS:]) == 20 and all(len(variant.changes) >= 2 for variant in VARIANTS[-PAIRS:])


@pytest.mark.parametrize("name", UNVARIED)
def test_what_is_left_out_exists(name: str):
    kind, _, field = name.rpartition(".")
    assert any(field in field_types(section) for section in OFFERED if kind in ("", getattr(section, "kind", "")))
