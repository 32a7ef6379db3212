"""Typed, frozen dataclasses for everything that a config can say: sections, and families of kinds.

A `Section` turns each value into the type that its field declares when it is constructed, or raises a
`ConfigError` of one sentence that names the field, the value and the fix.

A family is a choice between sections, each named once, in the file that implements it:

    class Position(Kind, home="txjax.ops.positions"): ...

    @dataclass(frozen=True)
    class Rope(Position, kind="rope"):
        theta: float = 10_000.0

It is a union that stays open: a new file under its home, or a class in a user's own config file, is a new member,
and the schema, the command line and the contract tests find it without being told its name. Families are written
nested by kind, `position.kind` and `position.rope.theta`, so that every path exists whichever kind is chosen.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import importlib
import pkgutil
import types
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, Union, get_args, get_origin

S = typing.TypeVar("S", bound="Section")


class ConfigError(ValueError):
    """A config that cannot be: one sentence with the field, the value and the fix."""


Former = Mapping[str, tuple[tuple[Any, Any], ...]]  # by field, values of earlier versions, each with today's


class Section:
    """Base of the config's frozen dataclasses: typed on construction, then judged by `check`.

    former: what fields said in earlier versions, so that the config.json of an old run is read.
    """

    former: ClassVar[Former] = {}

    def __post_init__(self) -> None:
        hints = field_types(type(self))
        for name, hint in hints.items():
            value = getattr(self, name)
            value = next((now for then, now in self.former.get(name, ()) if value == then), value)
            object.__setattr__(self, name, coerce(value, hint, name))
        self.check()

    def check(self) -> None:
        """Refuse values that the types allow and the section does not: raise ConfigError."""


class Kind(Section):
    """Base of every family. `home` makes a family, `kind` makes a member of the family that it derives from."""

    kind: ClassVar[str]
    _home: ClassVar[str]
    _members: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, *, home: str | None = None, kind: str | None = None, **more: Any) -> None:
        super().__init_subclass__(**more)
        if home is not None:
            cls._home, cls._members = home, {}
        if kind is not None:
            known = cls._members.get(kind)
            if known is not None and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise TypeError(f"kind {kind!r} is taken by {known.__module__}.{known.__qualname__}")
            cls.kind = kind
            cls._members[kind] = cls

    @classmethod
    def members(cls) -> dict[str, type[Self]]:
        """Every member by name, after importing the modules of the family's home."""
        home = importlib.import_module(cls._home)
        for found in pkgutil.iter_modules(getattr(home, "__path__", ())):
            importlib.import_module(f"{cls._home}.{found.name}")
        return dict(sorted(cls._members.items()))

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """The member that a bare word stands for (`position="rope"`), or None where it names none."""
        member = cls.members().get(text)
        return None if member is None else member()


def is_family(hint: Any) -> typing.TypeGuard[type[Kind]]:
    """Whether a type annotation is a family (and not one of its members)."""
    return isinstance(hint, type) and issubclass(hint, Kind) and "_members" in vars(hint)


def require(condition: bool, message: str) -> None:
    """Raise ConfigError(message) unless the condition holds."""
    if not condition:
        raise ConfigError(message)


def nearest(name: object, options: typing.Iterable[object]) -> str:
    """', did you mean ...?' for the option closest to a misspelt name, or nothing where none is close."""
    close = difflib.get_close_matches(str(name), [str(o) for o in options], 1, 0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def listed(names: typing.Sequence[str], shown: int = 6, separator: str = ", ") -> str:
    """The first names of a list that may be long, and how many more there are."""
    more = f"{separator}and {len(names) - shown} more" if len(names) > shown else ""
    return separator.join(names[:shown]) + more


@functools.cache
def field_types(cls: type) -> dict[str, Any]:
    """Declared type of each dataclass field, annotations resolved."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}


# ---------------------------------------------------------------- values


def literal(text: str) -> Any:
    """The Python value that a flag's text spells: none, true, numbers, tuples; anything else stays text."""
    word = text.strip().lower()
    if word in ("none", "null"):
        return None
    if word in ("true", "false"):
        return word == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def coerce(value: Any, hint: Any, path: str) -> Any:
    """`value` as the type `hint`, or a ConfigError that names `path`.

    Text is read as a Python literal where the field is not text; an int is welcome where a float is declared, a
    whole float where an int is.
    """
    origin, args = get_origin(hint), get_args(hint)
    if is_family(hint):
        return _member(value, hint, path)
    if dataclasses.is_dataclass(hint):
        section = typing.cast(type, hint)
        return value if isinstance(value, section) else from_dict(section, value, path)
    if origin is Literal:
        return _choice(value, args, path)
    if origin in (Union, types.UnionType):
        return _either(value, args, path)
    if isinstance(value, str) and hint is not str:
        value = literal(value)
    if origin is tuple:
        return _tuple(value, args, path)
    if hint is float and type(value) is int:
        return float(value)
    if hint is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is hint:
        return value
    raise ConfigError(f"{path} must be {hint.__name__}, got {value!r}")


def _choice(value: Any, options: tuple[Any, ...], path: str) -> Any:
    for option in options:
        if value == option and type(value) is type(option):
            return option
    if value is None and "none" in options:  # `--config.x=none` reads as None before it gets here
        return "none"
    listed = ", ".join(map(str, options))
    raise ConfigError(f"{path} must be one of {listed}, got {value!r}{nearest(value, options)}")


def _either(value: Any, options: tuple[Any, ...], path: str) -> Any:
    kind = isinstance(value, str) and any(is_family(o) and value in o.members() for o in options)  # may be named none
    nothing = value is None or (isinstance(value, str) and literal(value) is None)
    if types.NoneType in options and nothing and not kind:
        return None
    wanted = []
    for option in options:
        if option is types.NoneType:
            wanted.append("none")
            continue
        try:
            return coerce(value, option, path)
        except ConfigError as error:
            text = str(error).removeprefix(f"{path} must be ")
            if text == str(error) and isinstance(value, (Mapping, Kind, Section)):
                raise  # the error is about a field inside the value: the more useful message
            wanted.append(text.split(", got")[0])
    raise ConfigError(f"{path} must be {' or '.join(wanted)}, got {value!r}")


def _tuple(value: Any, args: tuple[Any, ...], path: str) -> tuple[Any, ...]:
    if not isinstance(value, (tuple, list)):
        raise ConfigError(f"{path} must be a tuple such as '(a,b)', got {value!r}")
    kinds = (args[0],) * len(value) if args[-1] is Ellipsis else args
    if len(value) != len(kinds):
        raise ConfigError(f"{path} must have {len(kinds)} entries, got {value!r}")
    return tuple(coerce(v, kind, f"{path}[{i}]") for i, (v, kind) in enumerate(zip(value, kinds, strict=True)))


def _member(value: Any, family: type[Kind], path: str) -> Kind:
    """A family's member from an instance, a bare word, or `{"kind": name, name: {fields}}`."""
    if isinstance(value, family):
        return value
    members = family.members()
    if value is None:
        value = "none"
    if isinstance(value, str):
        found = family.from_text(value)
        if found is None:
            raise ConfigError(f"{path} must be one of {', '.join(members)}, got {value!r}{nearest(value, members)}")
        return found
    if not isinstance(value, Mapping) and not hasattr(value, "keys"):
        raise ConfigError(f"{path} must be one of {', '.join(members)}, got {value!r}")
    kind = value.get("kind", None)
    if kind not in members:
        raise ConfigError(f"{path}.kind must be one of {', '.join(members)}, got {kind!r}{nearest(kind, members)}")
    for other in value:
        if other == "kind" or other == kind:
            continue
        if other not in members:
            raise ConfigError(f"{path}.{other} is not a field{nearest(other, ['kind', *members])}")
        if from_dict(members[other], value[other], f"{path}.{other}") != members[other]():
            raise ConfigError(
                f"{path}.{other} is set, but the kind chosen is {kind!r}: choose kind={other}, or leave it out"
            )
    return from_dict(members[kind], value.get(kind, {}), f"{path}.{kind}")


# ---------------------------------------------------------------- dicts


def from_dict(cls: type, data: Any, path: str = "") -> Any:
    """The dataclass `cls` from a dict or ConfigDict. Missing keys take their defaults, unknown ones are refused."""
    dot = path and path + "."
    if isinstance(data, cls):
        return data
    if not hasattr(data, "keys"):
        raise ConfigError(f"{path or 'config'} is a group of fields, got {data!r}")
    hints = field_types(cls)
    for key in data:
        if key not in hints:
            raise ConfigError(f"{dot}{key} is not a field{nearest(key, hints)}")
    try:
        return cls(**{key: data[key] for key in data})  # the constructor types and judges the values
    except ConfigError as error:
        raise ConfigError(f"{dot}{error}") from None
    except TypeError as error:
        raise ConfigError(f"{path or 'config'}: {error}") from None


def to_dict(section: Any) -> Any:
    """Plain dicts, lists and scalars for JSON. Of a family only the chosen kind is written."""
    if isinstance(section, Kind):
        return {"kind": section.kind, section.kind: _fields(section)}
    if dataclasses.is_dataclass(section):
        return _fields(section)
    if isinstance(section, tuple):
        return [to_dict(v) for v in section]
    return section


def _fields(section: Any) -> dict[str, Any]:
    return {name: to_dict(getattr(section, name)) for name in field_types(type(section))}


def flatten(section: Any, path: str = "") -> dict[str, Any]:
    """Every leaf by its dotted path, `{"model.width": 128, ...}`, of the chosen kinds only."""
    data = to_dict(section) if not isinstance(section, dict) else section
    leaves: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value:
            leaves |= flatten(value, name)
        elif not isinstance(value, dict):
            leaves[name] = value
    return leaves


def with_values(section: S, values: Mapping[str, Any]) -> S:
    """`section` with the values at dotted paths, set together and judged once: `{"position": "rope", "width": 64}`.

    A family takes a member, or its kind as a bare word. ConfigError where a path names no field, or a value does not
    fit.
    """
    data = to_dict(section)
    for path, value in sorted(values.items(), key=lambda item: item[0].count(".")):  # a kind before its fields
        *parents, last = path.split(".")
        group = data
        for part in parents:
            inner = group.setdefault(part, {})
            if isinstance(inner, str):  # a kind as a bare word
                group[part] = inner = {"kind": inner, inner: {}}
            elif isinstance(inner, Kind):
                group[part] = inner = to_dict(inner)
            if not isinstance(inner, dict):
                raise ConfigError(f"{path}: {part} has no fields")
            group = inner
        group[last] = value
    return from_dict(type(section), data)


def difference(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """The leaves in which two configs differ: `{path: (old, new)}`, None where one has no such leaf."""
    a, b = flatten(old), flatten(new)
    return {key: (a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)}
