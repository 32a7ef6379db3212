"""The models that the contract suite tries: every registered kind and every choice of the schema, unasked.

Around each of two bases one field is changed at a time: `alternatives` reads the fields' types, so a new kind, or a
new word of a Literal, becomes a variant without being told here. Only numbers have to be given (`NUMBERS`). Twenty
pairs of changes, drawn with a fixed seed, come on top.
"""

from __future__ import annotations

import random
import types
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin

from txjax.config import Attention, Layer, Model
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.initialisations import Normal
from txjax.ops.norms import RMSNorm
from txjax.ops.positions import Rope
from txjax.schema import ConfigError, Kind, Section, field_types, is_family

LENGTH, VOCAB, PAIRS = 8, 14, 20

SIZES = {"width": 32, "vocab_size": VOCAB, "context": 12}
BASES = {
    "gpt": Model(num_layers=2, **SIZES),
    "llama": Model(
        num_layers=3,
        attention=Attention(num_kv_heads=2, qkv_bias=False, output_bias=False),
        feedforward=Dense(hidden=40, activation="swiglu", bias=False),
        norm=RMSNorm(),
        position=Rope(),
        tied_head=False,
        init=Normal(scale_residual=False),
        **SIZES,
    ),
}

# What a number is changed to, by its field; each must fit both bases.
NUMBERS: dict[str, tuple[float, ...]] = {
    "num_heads": (8,),
    "num_kv_heads": (1,),
    "head_dim": (12,),
    "scale": (0.2,),
    "softcap": (2.0,),
    "logit_softcap": (2.0,),
    "block_size": (3,),
    "window": (3,),
    "hidden": (24,),
    "residual": (0.5,),
    "dropout": (0.3,),
    "unroll": (2,),
    "std": (0.1,),
    "embedding_std": (1.0,),
    "eps": (0.1,),
    "theta": (50.0,),
    "base": (50.0,),
    "fraction": (0.5,),
    "factor": (2.5,),
    "original_context": (4,),
    "beta_fast": (2.0,),
    "beta_slow": (0.5,),
    "low_factor": (0.5,),
    "high_factor": (3.0,),
}

# Fields without alternatives of their own.
UNVARIED = {
    "width": "a size",
    "num_layers": "a size; the bases differ in it",
    "vocab_size": "a size",
    "context": "a size",
    "first_layers": "see `patterns`",
    "pattern": "see `patterns`",
    "dropout_sites": "means something with dropout only: tests/contracts/test_dropout.py",
}


@dataclass(frozen=True)
class Variant:
    """A base and what is changed in it, as pairs of a dotted path and a value."""

    base: str
    changes: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def model(self) -> Model:
        model = BASES[self.base]
        for path, value in self.changes:
            model = put(model, path, value)
        return model

    def __str__(self) -> str:
        return "-".join([self.base, *(f"{path}={spell(value)}" for path, value in self.changes)])


def spell(value: Any) -> str:
    """A value in a test's name: of a section only what differs from its defaults."""
    if isinstance(value, tuple):
        return "+".join(map(spell, value))
    if not isinstance(value, Section):
        return str(value)
    plain = type(value)()
    changed = [name for name in field_types(type(value)) if getattr(value, name) != getattr(plain, name)]
    name = value.kind if isinstance(value, Kind) else ""
    return ".".join([name, *(f"{field}={spell(getattr(value, field))}" for field in changed)]).strip(".") or "own"


def put(section: Any, path: str, value: Any) -> Any:
    """`section` with the field at a dotted path replaced."""
    name, _, rest = path.partition(".")
    return replace(section, **{name: put(getattr(section, name), rest, value) if rest else value})


def alternatives(section: Section) -> Iterator[tuple[str, Any]]:
    """Every single change of a section: (dotted path, value)."""
    for name, hint in field_types(type(section)).items():
        current = getattr(section, name)
        for value in options(hint, name):
            if (value != current and type(value) is not type(current)) or (value != current and not isinstance(value, Section)):
                yield name, value
        if isinstance(current, Section):
            yield from ((f"{name}.{path}", value) for path, value in alternatives(current))


def options(hint: Any, name: str) -> Iterator[Any]:
    """The values that a type offers."""
    if is_family(hint):
        for member in hint.members().values():
            yield member()
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, types.UnionType):
        for arm in get_args(hint):
            yield from options(arm, name)
    elif hint is types.NoneType:
        yield None
    elif hint is bool:
        yield from (False, True)
    elif hint in (int, float):
        yield from map(hint, NUMBERS.get(name, ()))


def kinds_of(section: Section) -> Iterator[type[Kind]]:
    """The kinds that a config has chosen, at any depth."""
    for name in field_types(type(section)):
        value = getattr(section, name)
        if isinstance(value, Kind):
            yield type(value)
        if isinstance(value, Section):
            yield from kinds_of(value)


def unchosen(section: Section) -> Iterator[tuple[str, Any]]:
    """Changes of the fields of kinds that no base has chosen: (path of the kind, the kind changed)."""
    chosen = {kind for base in BASES.values() for kind in kinds_of(base)}
    for path, value in alternatives(section):
        if isinstance(value, Kind) and type(value) not in chosen:
            yield from ((path, put(value, inner, new)) for inner, new in alternatives(value))


def patterns() -> Iterator[tuple[tuple[str, Any], ...]]:
    """Layers that differ: each mixer and feed-forward as one layer of two, and as a layer before the first period."""
    for field, hint in field_types(Layer).items():
        family = next(arm for arm in get_args(hint) if is_family(arm))
        for member in family.members().values():
            kinds = [member(), *(put(member(), path, value) for path, value in alternatives(member()))]
            for kind in kinds:
                other = Layer(**{field: kind})
                if kind != getattr(BASES["gpt"], field):
                    yield ("num_layers", 4), ("pattern", (Layer(), other))
            yield ("num_layers", 3), ("first_layers", (Layer(**{field: member()}),))


def fits(variant: Variant) -> bool:
    try:
        return variant.model is not None
    except ConfigError:
        return False


def all_variants() -> list[Variant]:
    singles: list[Variant] = []
    for name, base in BASES.items():
        singles += [Variant(name, (change,)) for change in alternatives(base)]
    singles += [Variant("gpt", (change,)) for change in unchosen(BASES["gpt"])]
    singles += [Variant("gpt", changes) for changes in patterns()]
    return [*map(Variant, BASES), *singles, *pairs(singles)]


def pairs(singles: list[Variant]) -> list[Variant]:
    """Two changes at once, of different fields, that fit together."""
    drawn = random.Random(0)
    found: list[Variant] = []
    while len(found) < PAIRS:
        one, other = drawn.sample(singles, 2)
        both = Variant(one.base, one.changes + other.changes)
        [path.split(".")[0] if path != "attention" else path for path, _ in both.changes]
        if one.base == other.base and len({p for p, _ in both.changes}) == len(both.changes) and fits(both):
            found.append(both)
    return found


VARIANTS = all_variants()

if __name__ == "__main__":
    for v in VARIANTS:
        print(v)
    print(len(VARIANTS))
