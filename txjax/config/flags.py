"""A Config from a `get_config()` file and the command line, by ml_collections' config_flags."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import ml_collections
from absl import flags
from ml_collections import config_flags
from ml_collections.config_dict import FieldReference

from txjax.config.root import Config
from txjax.schema import ConfigError, Kind, field_types, from_dict, is_family, nearest, to_dict

OVERRIDE = re.compile(r"--?(?P<no>no)?config\.(?P<path>[\w.]+)(?P<value>=.*)?", re.DOTALL)


def load(file: str, overrides: Sequence[str] = ()) -> Config:
    """The Config of `FILE.py` or `FILE.py:ARG`, with flags such as `--config.train.steps=100` applied.

    The file's get_config() may return a Config, a ConfigDict or a dict. Raises ConfigError where a flag names no
    field, a value has the wrong type, or sections contradict each other.
    """
    config = from_dict(Config, run_get_config(file))
    return override(config, overrides)


def override(config: Config, overrides: Sequence[str]) -> Config:
    """`config` with command-line flags applied, in any order."""
    argv = [flag for text in _joined(overrides) for flag in _spelt_out(text)]
    if not argv:
        return config
    view = to_config_dict(config)
    _forget_replaced_kinds(view, argv)
    holder = flags.FlagValues()
    config_flags.DEFINE_config_dict("config", view, flag_values=holder, sys_argv=["txjax", *argv])
    try:
        rest = holder(["txjax", *argv])
    except (flags.Error, TypeError, ValueError, AttributeError, KeyError) as error:
        raise ConfigError(f"cannot apply {' '.join(argv)}: {error}") from None
    if len(rest) > 1:
        raise ConfigError(f"{rest[1]!r} is not a flag: write --config.FIELD=VALUE")
    return from_dict(Config, holder["config"].value)


def run_get_config(file: str) -> Any:
    """What the file's get_config(), given ARG of `FILE.py:ARG` if there is one, returns."""
    path, _, argument = file.partition(":")
    source = Path(path)
    if not source.is_file():
        beside = sorted(p.name for p in source.parent.glob("*.py")) if source.parent.is_dir() else []
        raise ConfigError(f"--config: there is no file {path!r}{nearest(source.name, beside)}")
    folder = str(source.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that a user's file may import its neighbours
    spec = importlib.util.spec_from_file_location(source.stem, source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(source.stem, module)  # annotations of a user's own kinds are resolved through it
    spec.loader.exec_module(module)
    if not callable(getattr(module, "get_config", None)):
        raise ConfigError(f"--config: {path} has no get_config() function")
    takes = len(inspect.signature(module.get_config).parameters)
    if argument and not takes:
        raise ConfigError(f"--config: get_config() of {path} takes no argument, got {argument!r}")
    return module.get_config(argument) if argument else module.get_config()


def to_config_dict(section: Any) -> ml_collections.ConfigDict:
    """The ConfigDict view of a config, every kind of every family spelt out, so that absl can override any leaf.

    Text stays text. Every other leaf is a reference to an object of any type: absl then takes any literal, and
    the schema judges it (a plain ConfigDict cannot override a None, a tuple, or a float by an int).
    """
    view = ml_collections.ConfigDict()
    for name, hint in field_types(type(section)).items():
        value = getattr(section, name)
        if is_family(hint):
            view[name] = _family_view(hint, value)
        elif dataclasses.is_dataclass(value):
            view[name] = to_config_dict(value)
        elif hint is str or (get_origin(hint) is Literal and all(isinstance(a, str) for a in get_args(hint))):
            view[name] = value
        else:
            view[name] = FieldReference(_plain(value), field_type=object)
    return view


def _family_view(family: type[Kind], chosen: Kind) -> ml_collections.ConfigDict:
    view = ml_collections.ConfigDict({"kind": chosen.kind})
    for kind, member in family.members().items():
        view[kind] = to_config_dict(chosen if kind == chosen.kind else member())
    return view


def _plain(value: Any) -> Any:
    return tuple(to_dict(v) for v in value) if isinstance(value, tuple) else to_dict(value)


def _joined(arguments: Sequence[str]) -> list[str]:
    """`--config.a.b VALUE` as one word, `--config.a.b=VALUE`."""
    joined: list[str] = []
    waiting = False
    for text in arguments:
        if waiting and not text.startswith("--config"):
            joined[-1] += "=" + text
            waiting = False
            continue
        joined.append(text)
        match = OVERRIDE.fullmatch(text)
        waiting = match is not None and match["value"] is None and not match["no"]
    return joined


def _spelt_out(flag: str) -> list[str]:
    """The flags that one flag stands for, after checking that its path exists: `position=rope` is `.kind=rope`."""
    match = OVERRIDE.fullmatch(flag)
    if match is None:
        raise ConfigError(f"{flag!r} is not a flag: write --config.FIELD=VALUE")
    path, value = match["path"], match["value"]
    hint = _declared(path)
    if value is None:
        if hint is bool:
            return [f"--config.{path}={'false' if match['no'] else 'true'}"]
        raise ConfigError(f"{path} needs a value: write --config.{path}=VALUE")
    if is_family(hint):
        member = hint.from_text(value[1:])
        if member is None:
            members = hint.members()
            raise ConfigError(
                f"{path} must be one of {', '.join(members)}, got {value[1:]!r}{nearest(value[1:], members)}"
            )
        leaves = [f"--config.{path}.kind={member.kind}"]
        plain, is_kind = type(member)(), value[1:] in hint.members()
        for name in field_types(type(member)):
            said = getattr(member, name)
            if said != getattr(plain, name) or (said == value[1:] and not is_kind):  # the file may say another name
                leaves.append(f"--config.{path}.{member.kind}.{name}={said}")
        return leaves
    if dataclasses.is_dataclass(hint):
        raise ConfigError(f"{path} is a group of fields: set one of {', '.join(field_types(hint))}")  # type: ignore[arg-type]
    return [flag]


def _declared(path: str) -> Any:
    """The type that the schema declares at a dotted path; ConfigError with the nearest name where there is none."""
    hint: Any = Config
    seen: list[str] = []
    for part in path.split("."):
        if is_family(hint):
            options = {"kind": str, **hint.members()}
        elif dataclasses.is_dataclass(hint):
            options = field_types(hint)  # type: ignore[arg-type]
        else:
            raise ConfigError(f"{'.'.join(seen)} has no fields, got {path}")
        if part not in options:
            raise ConfigError(f"{'.'.join([*seen, part])} is not a field{nearest(part, options)}")
        hint = options[part]
        seen.append(part)
    return hint


def _forget_replaced_kinds(view: ml_collections.ConfigDict, argv: Sequence[str]) -> None:
    """Where a flag chooses another kind, put the file's own kind back to its defaults: it is no longer asked for."""
    for flag in argv:
        path, value = flag.removeprefix("--config.").split("=", 1)
        *parents, last = path.split(".")
        hint = _declared(".".join(parents)) if parents else None
        if last != "kind" or not is_family(hint):
            continue
        group: Any = view
        for part in parents:
            group = group[part]
        if value != group["kind"]:
            group[group["kind"]] = to_config_dict(hint.members()[group["kind"]]())
