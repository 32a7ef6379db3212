"""Frozen dataclasses whose fields are arrays, as pytrees."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


def static(**more: Any) -> Any:
    """A field that is part of the program, not of the data: a change compiles anew."""
    return dataclasses.field(metadata={"static": True}, **more)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """Class decorator: a frozen dataclass that jax takes apart."""
    return jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))
