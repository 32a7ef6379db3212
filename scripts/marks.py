"""Markers in test files, found without running them: what @pytest.mark.NAME(...) stands on, and what it names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


class TableError(ValueError):
    """A table under docs/ or a marker is malformed."""


@dataclass(frozen=True)
class Mark:
    """One marker: the test that it stands on, and what it names."""

    test: str
    names: tuple[str, ...]


def read_marks(root: Path, marker: str) -> list[Mark]:
    """Every @pytest.mark.MARKER under root/tests."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [
        mark
        for file in files
        for mark in marks_below(
            ast.parse(file.read_text(encoding="utf-8")), file.relative_to(root).as_posix(), f"mark.{marker}"
        )
    ]


def marks_below(node: ast.AST, name: str, call: str) -> Iterator[Mark]:
    """The calls of `call` inside a node. One in a function or class (a decorator, say) is its own; else the file's."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        within = f"{name}::{child.name}" if named else name
        if isinstance(child, ast.Call) and ast.unparse(child.func).endswith(call):
            yield Mark(within, tuple(literal(argument, within, call) for argument in child.args))
        yield from marks_below(child, within, call)


def literal(argument: ast.expr, test: str, call: str) -> str:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    raise TableError(f"{test}: write out what {call}(...) names, got {ast.unparse(argument)}")
