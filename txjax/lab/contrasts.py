"""Contrasts: functions from the cells of one seed to one number, positive in the direction that is predicted.

A study of n seeds gives n numbers for each, so that every test is a one-sample test, whatever the design.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from txjax.lab.table import Level, Seed
from txjax.schema import ConfigError, nearest

Contrast = Callable[[Seed], float]
Factors = Mapping[str, Sequence[Level]]


@dataclass(frozen=True)
class Difference:
    """mean of the metric at `high` minus mean at `low`, over the levels of all other factors."""

    high: Level
    low: Level
    over: str | None = None

    def bind(self, factors: Factors) -> Contrast:
        factor = named(factors, self.over) if self.over else factor_with(factors, self.high, self.low)
        return lambda seed: seed.at(factor, self.high).mean() - seed.at(factor, self.low).mean()


@dataclass(frozen=True)
class LogRatio:
    """log of the mean at `high` over the mean at `low`: log 2 is twice as much."""

    high: Level
    low: Level
    over: str | None = None

    def bind(self, factors: Factors) -> Contrast:
        factor = named(factors, self.over) if self.over else factor_with(factors, self.high, self.low)
        return lambda seed: math.log(seed.at(factor, self.high).mean()) - math.log(seed.at(factor, self.low).mean())


@dataclass(frozen=True)
class Slope:
    """Least-squares slope of a contrast in the logarithm of a factor's levels: what a factor e of it adds."""

    of: Any
    over: str

    def bind(self, factors: Factors) -> Contrast:
        factor = named(factors, self.over)
        levels = [level for level in factors[factor] if isinstance(level, (int, float)) and level > 0]
        if len(levels) < 2 or len(levels) < len(factors[factor]):
            raise ConfigError(f"slope needs two positive numbers as levels of {factor}, got {list(factors[factor])}")
        x = [math.log(level) for level in levels]
        mean = math.fsum(x) / len(x)
        weights = [(value - mean) / math.fsum((v - mean) ** 2 for v in x) for value in x]
        inner = bind(self.of, {name: values for name, values in factors.items() if name != factor})
        return lambda seed: math.fsum(
            w * inner(seed.at(factor, level)) for w, level in zip(weights, levels, strict=True)
        )


@dataclass(frozen=True)
class Interaction:
    """A contrast at level `high` of another factor minus the same at level `low`."""

    of: Any
    high: Level
    low: Level
    over: str | None = None

    def bind(self, factors: Factors) -> Contrast:
        factor = named(factors, self.over) if self.over else factor_with(factors, self.high, self.low)
        inner = bind(self.of, {name: values for name, values in factors.items() if name != factor})
        return lambda seed: inner(seed.at(factor, self.high)) - inner(seed.at(factor, self.low))


@dataclass(frozen=True)
class At:
    """A contrast at one level of another factor."""

    of: Any
    level: Level
    over: str | None = None

    def bind(self, factors: Factors) -> Contrast:
        factor = named(factors, self.over) if self.over else factor_with(factors, self.level)
        inner = bind(self.of, {name: values for name, values in factors.items() if name != factor})
        return lambda seed: inner(seed.at(factor, self.level))


def difference(high: Level, low: Level, over: str | None = None) -> Difference:
    """`high` minus `low`, averaged over other factors. over: the factor, where both levels do not tell it."""
    return Difference(high, low, over)


def log_ratio(high: Level, low: Level, over: str | None = None) -> LogRatio:
    """The logarithm of `high` over `low`: for times, steps, speeds."""
    return LogRatio(high, low, over)


def slope(of: Any, over: str) -> Slope:
    """How a contrast grows with the logarithm of a factor."""
    return Slope(of, over)


def interaction(of: Any, high: Level, low: Level, over: str | None = None) -> Interaction:
    """How much larger a contrast is at one level of another factor than at another."""
    return Interaction(of, high, low, over)


def at(of: Any, level: Level, over: str | None = None) -> At:
    """A contrast at one level of another factor."""
    return At(of, level, over)


def bind(contrast: Any, factors: Factors) -> Contrast:
    """The function of a seed's cells; ConfigError where the contrast names what the study does not have.

    A contrast of one's own is any function of a Seed.
    """
    return contrast.bind(factors) if hasattr(contrast, "bind") else contrast


def describe(contrast: Any) -> str:
    """Text that changes when the contrast does: what registration hashes. A function is described by its source, since
    its name would be the same and its address another at each start.
    """
    if not hasattr(contrast, "bind"):
        return source_of(contrast)
    fields = [(f.name, getattr(contrast, f.name)) for f in dataclasses.fields(contrast)]
    shown = [f"{name}={describe(value) if name == 'of' else repr(value)}" for name, value in fields]
    return f"{type(contrast).__name__}({', '.join(shown)})"


def source_of(function: Callable[..., Any]) -> str:
    """The text of a function, and of the functions and plain constants of its own file that it uses."""
    found: dict[str, None] = {}

    def add(one: Any) -> None:
        one = inspect.unwrap(one)
        text = inspect.getsource(one).strip()
        if text in found:
            return
        found[text] = None
        code = one.__code__
        inner = [const.co_names for const in code.co_consts if inspect.iscode(const)]
        for name in itertools.chain(code.co_names, *inner):
            used = one.__globals__.get(name)
            if getattr(used, "__module__", None) == one.__module__ and inspect.isfunction(inspect.unwrap(used)):
                add(used)
            elif _plain(used):
                found[f"{name} = {used!r}"] = None

    add(function)
    return "\n\n".join(found)


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_plain, value))
    return isinstance(value, (bool, int, float, str))


def named(factors: Factors, name: str) -> str:
    """A factor by its path, or by the last part of it."""
    if name in factors:
        return name
    short = [factor for factor in factors if factor.rpartition(".")[2] == name]
    if len(short) != 1:
        raise ConfigError(f"over={name!r} is not a factor of the study{nearest(name, factors)}: {', '.join(factors)}")
    return short[0]


def factor_with(factors: Factors, *levels: Level) -> str:
    """The one factor that has all these levels."""
    found = [name for name, own in factors.items() if all(level in own for level in levels)]
    shown = " and ".join(map(repr, levels))
    if not found:
        every = [level for own in factors.values() for level in own]
        close = "".join(nearest(level, every) for level in levels if level not in every)
        raise ConfigError(f"no factor has the levels {shown}{close}: the levels are {', '.join(map(str, every))}")
    if len(found) > 1:
        raise ConfigError(f"the levels {shown} belong to {' and '.join(found)}: say which with over=")
    return found[0]
