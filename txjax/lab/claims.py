"""The register of claims, docs/claims.toml: what is said about the Transformer, and how it is tested here."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txjax.schema import ConfigError, nearest

CLASSES = ("identity", "measured", "literature")
# What an entry must say besides, by its state.
STATES = {
    "tested": None,  # a test or an identity computes it
    "registered": "by",  # the studies that predict it
    "open": "part",  # waits for a part of the project that is not built yet
    "untestable": "reason",  # not here
}


@dataclass(frozen=True)
class Claim:
    """One entry. kind: identity, measured or literature. by: files of studies, from the project's root."""

    id: str
    statement: str
    kind: str
    source: str
    state: str
    by: tuple[str, ...] = ()
    part: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Mistake:
    """What is said and not so, with what is right."""

    id: str
    said: str
    right: str
    source: str


@dataclass(frozen=True)
class Register:
    claims: tuple[Claim, ...]
    errors: tuple[Mistake, ...]

    @property
    def ids(self) -> list[str]:
        return [entry.id for entry in (*self.claims, *self.errors)]


def read_register(file: Path) -> Register:
    """ConfigError names the entry and the field that is wrong."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    register = Register(tuple(map(_claim, data["claim"])), tuple(map(_mistake, data["error"])))
    if twice := [name for name, n in Counter(register.ids).items() if n > 1]:
        raise ConfigError(f"{file.name}: id {twice[0]} is taken twice")
    return register


def _claim(fields: Mapping[str, Any]) -> Claim:
    where = fields.get("id", "an entry without an id")
    state, kind = fields.get("state"), fields.get("class")
    if state not in STATES:
        raise ConfigError(f"{where}: state must be one of {', '.join(STATES)}, got {state!r}{nearest(state, STATES)}")
    if kind not in CLASSES:
        raise ConfigError(f"{where}: class must be one of {', '.join(CLASSES)}, got {kind!r}{nearest(kind, CLASSES)}")
    _require_fields(where, fields, {"id", "statement", "class", "source", "state", STATES[state]} - {None})
    rest = {name: value for name, value in fields.items() if name not in ("class", "by")}
    return Claim(**rest, kind=kind, by=tuple(fields.get("by", ())))


def _mistake(fields: Mapping[str, Any]) -> Mistake:
    _require_fields(fields.get("id", "an entry without an id"), fields, {"id", "said", "right", "source"})
    return Mistake(**fields)


def _require_fields(where: str, fields: Mapping[str, Any], wanted: set[Any]) -> None:
    if wrong := wanted ^ fields.keys():
        raise ConfigError(f"{where}: it has the fields {', '.join(sorted(wanted))} and no others; see {sorted(wrong)}")


def predicted(root: Path) -> dict[str, set[str]]:
    """The claims that each file of experiments/ predicts, as claim="C05", read and not run."""
    found: dict[str, set[str]] = {}
    for file in sorted((root / "experiments").rglob("*.py")):
        names = set(_claims_in(ast.parse(file.read_text(encoding="utf-8"))))
        if names:
            found[file.relative_to(root).as_posix()] = names
    return found


def _claims_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "claim" and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
