"""A sweep as its user writes it: a Python file with get_sweep(), or an expression on the command line."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from txjax.lab.sweep import combinators
from txjax.lab.sweep.combinators import Point, Space
from txjax.schema import ConfigError, nearest

CALLS = {
    name: getattr(combinators, name)
    for name in ("grid", "zip", "chain", "product", "random", "uniform", "log_uniform")
}  # fmt: skip
RANGES = ("uniform", "log_uniform")
CALL = re.compile(r"\s*(\w+)\s*\(")


def read_sweep(text: str) -> list[Point] | Space:
    """FILE.py, an expression such as `zip({"a": (1, 2), "b": (3, 4)})`, or `path=value,value;path=value,value`.

    A list of points, or a space: {path: values or a range}, which stands for its grid or is an engine's to search.
    """
    if text.partition(":")[0].endswith(".py"):
        return _checked(_from_file(text), text)
    if CALL.match(text):
        return _checked(_called(text), "--sweep")
    return _short(text)


def _from_file(text: str) -> Any:
    path = Path(text)
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise ConfigError(f"--sweep: there is no file {text!r}{nearest(path.name, beside)}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except (TypeError, NameError, ImportError) as error:
        raise ConfigError(f"--sweep: {text}: {error}") from None
    if not callable(getattr(module, "get_sweep", None)):
        raise ConfigError(f"--sweep: {text} has no get_sweep() function")
    try:
        return module.get_sweep()
    except TypeError as error:  # an argument that is not there
        raise ConfigError(f"--sweep: {text}: {error}") from None


def _checked(sweep: Any, where: str) -> list[Point] | Space:
    if isinstance(sweep, Mapping):
        return sweep
    if isinstance(sweep, list) and all(isinstance(point, Mapping) for point in sweep):
        return [dict(point) for point in sweep]
    raise ConfigError(
        f"{where} must come to a list of points, each {{config path: value}}, or to {{config path: values}}, "
        f"got {type(sweep).__name__}"
    )


# ---------------------------------------------------------------- on the command line


def _short(text: str) -> Space:
    """`path=value,value;path=...`: commas and semicolons inside brackets and quotes belong to a value."""
    space: dict[str, Any] = {}
    for part in _split(text, ";"):
        path, equals, values = part.partition("=")
        path = path.strip()
        if not equals or not path:
            raise ConfigError(f"--sweep: {part.strip()!r} must be PATH=VALUE,VALUE: several of them are parted by ;")
        if path in space:
            raise ConfigError(f"--sweep: {path} stands there twice: give all of its values at once")
        called = CALL.match(values)
        is_range = called is not None and called[1] in RANGES
        space[path] = _called(values) if is_range else [v for value in _split(values, ",") if (v := value.strip())]
    if not space:
        raise ConfigError("--sweep is empty: give PATH=VALUE,VALUE or a file with get_sweep()")
    return space


def _split(text: str, at: str) -> list[str]:
    """Parts between the separators that lie in no bracket and no quotes, empty ones left out."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        quote = "" if letter == quote else letter if not quote and letter in "\"'" else quote
        depth += 0 if quote else (letter in "([{") - (letter in ")]}")
        if letter == at and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def _called(text: str) -> Any:
    """The value of an expression that holds calls of the combinators, and literals; nothing else is run."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise ConfigError(f"--sweep: {text.strip()!r} is no expression: {error.msg}") from None
    return _value(tree)


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name = node.func.id
        if name not in CALLS:
            raise ConfigError(f"--sweep: {name} must be one of {', '.join(CALLS)}{nearest(name, CALLS)}")
        return _apply(CALLS[name], name, node)
    if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
        return {_value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key}
    if isinstance(node, ast.Tuple | ast.List):
        return [_value(item) for item in node.elts]
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ConfigError(f"--sweep: {ast.unparse(node)} must be a literal or one of {', '.join(CALLS)}") from None


def _apply(call: Callable[..., Any], name: str, node: ast.Call) -> Any:
    arguments = [_value(argument) for argument in node.args]
    named = {keyword.arg: _value(keyword.value) for keyword in node.keywords if keyword.arg}
    try:
        return call(*arguments, **named)
    except (TypeError, AttributeError) as error:
        raise ConfigError(f"--sweep: {name}: {error}") from None
