"""The suite tries everything there is to choose: no field and no kind is left out without a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from variants import BASES, NUMBERS, SINGLES, UNVARIED, VARIANTS, alternatives, kinds_of

from txjax.config import FAMILIES, Attention, Layer, Model
from txjax.ops.positions import Position, RopeScaling
from txjax.schema import Kind, Section, field_types

OF_A_MODEL = [family for family in (*FAMILIES, RopeScaling) if family.__name__ in str(field_types(Model).values()) + str(
    [field_types(kind) for kind in Position.members().values()]
)]  # fmt: skip


def tried_kinds() -> set[type[Kind]]:
    return {kind for variant in VARIANTS for kind in kinds_of(variant.model)}


@pytest.mark.parametrize("family", OF_A_MODEL, ids=lambda family: family.__name__)
def test_every_kind_is_tried(family: type[Kind]):
    assert set(family.members().values()) <= tried_kinds()
