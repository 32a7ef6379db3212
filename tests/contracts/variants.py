"""The models that the contract suite tries: every registered kind and every choice of the schema, unasked.

Around two bases one field is changed at a time: to each kind around both, to all else around one. The changes are read
from the fields' types, so that a new kind, or a new word of a Literal, is tried without being named here; only numbers
have to be given (`NUMBERS`). Twenty pairs of changes, drawn with a fixed seed, come on top.
"""

from __future__ import annotations

import random
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Literal, Union, get_args, get_origin

from txjax.config import Attention, Cross, Encoder, Layer, Model
from txjax.nn.embeddings.patches import Patches
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.heads.linear import LinearHead
from txjax.nn.initialisations import Normal
from txjax.nn.mixers.gru import GRU
from txjax.ops.norms import NoNorm, RMSNorm
from txjax.ops.positions import Rope
from txjax.schema import ConfigError, Kind, Section, field_types, is_family

LENGTH, PAIRS = 8, 20
VOCAB = LENGTH**2  # so that a batch can be without a repeated token
# One layer, for time's sake: `patterns` has every mixer and feed-forward in deeper models.
SIZES: dict[str, int] = {"width": 32, "num_layers": 1, "vocab_size": VOCAB, "context": LENGTH}
BASES = {
    "gpt": Model(**SIZES),
    "llama": Model(
        attention=Attention(num_kv_heads=2, qkv_bias=False, output_bias=False),
        feedforward=Dense(hidden=40, activation="swiglu", bias=False),
        norm=RMSNorm(),
        position=Rope(),
        head=LinearHead(),
        init=Normal(scale_residual=False),
        **SIZES,
    ),
}

# What a number is changed to, by its field, around the base named: numbers enter formulas, not the program's structure.
NUMBERS: dict[str, tuple[str, float]] = {
    "num_heads": ("gpt", 8),
    "num_kv_heads": ("gpt", 1),
    "head_dim": ("llama", 12),
    "scale": ("gpt", 0.2),
    "softcap": ("llama", 2.0),
    "logit_softcap": ("gpt", 2.0),
    "window": ("llama", 3),
    "hidden": ("gpt", 24),
    "num_shared": ("gpt", 1),
    "num_groups": ("gpt", 2),
    "group_best": ("gpt", 1),
    "routed_scale": ("gpt", 1.5),
    "q_rank": ("gpt", 12),
    "kv_rank": ("gpt", 10),
    "rope_dim": ("gpt", 4),
    "value_dim": ("gpt", 12),
    "residual": ("llama", 0.5),
    "dropout": ("gpt", 0.3),
    "unroll": ("llama", 2),
    "fraction": ("llama", 0.5),
    "tokens.width": ("gpt", 20),
}
# Fields that make no variant of their own, and why.
UNVARIED = {
    "width": "a size",
    "num_layers": "a size",
    "vocab_size": "a size",
    "context": "a size",
    "pattern": "see `patterns`",
    "first_layers": "see `patterns`",
    "mixer_norm": "see `patterns`",
    "dropout_sites": "means something with dropout alone: test_dropout_keys.py",
    "block_size": "means something with blockwise attention alone: test_heads.py",
    "forget_bias": "a start: tests/nn",
    "kernel_size": "a size: tests/ops",
    **dict.fromkeys(("num_experts", "top_k", "top_groups"), "a size: tests/ops/test_moe.py"),
    **dict.fromkeys(("capacity_factor", "balance", "z_loss", "bias_speed"), "of training: tests/nn/test_mixture.py"),
    "hidden": "a size: `patterns`",
    "theta": "a number: tests/ops/test_rope.py",
    "chunk": "values do not depend on it: tests/ops",
    "channels": "a size: tests/nn/test_patches.py",
    "outputs": "a size: tests/nn/test_heads.py",
    "types": "a size: tests/interop/test_families.py",
    "offset": "of files of others: tests/interop/test_families.py",
    "buckets": "a size: tests/ops",
    "max_distance": "a number: tests/ops",
    "momentum": "means something in training alone: tests/nn",
    "mixture.activation": "each is tried in a dense feed-forward; of experts: tests/ops/test_moe.py",
    **dict.fromkeys(
        ("masked.activation", "replaced.activation"), "each is tried in a feed-forward: tests/nn/test_heads.py"
    ),
    "encoder": "tests/models/test_encoder_decoder.py",
    "cross": "means something over an encoder alone: tests/models/test_encoder_decoder.py",
    **dict.fromkeys(("eps", "std", "embedding_std", "base", "factor", "original_context"), "a number: tests/ops"),
    **dict.fromkeys(("beta_fast", "beta_slow", "low_factor", "high_factor", "mscale"), "a number: tests/ops"),
}
# Changes of one field that make no model, and why.
UNFIT = {
    **dict.fromkeys((f"mixer.position={kind}" for kind in ("learned", "relative")), "its table belongs to the model"),
    **dict.fromkeys(
        ("mixer.position=sinusoidal", "mixer.position=sinusoidal.pairs=half"),
        "it adds to the embedding, which is the model's",
    ),
}
# Paths whose values change how a model is drawn or computed, and not what it computes.
SAME_FUNCTION = ("init", "dropout", "matmul_precision", "remat", "unroll")
UNUSABLE = ("cudnn",)  # needs a GPU; tests/ops/test_attention.py holds it to its refusal
APART: tuple[type[Section], ...] = (Encoder, Cross, Patches)  # read no ids, or not those of TOKENS: tests of their own

Change = tuple[str, Any]  # a dotted path in Model, and a value


@dataclass(frozen=True)
class Variant:
    """A base and what is changed in it."""

    base: str
    changes: tuple[Change, ...] = ()

    @cached_property
    def model(self) -> Model:
        return put_all(BASES[self.base], self.changes)

    @property
    def computes_anew(self) -> bool:
        """Whether the function of its parameters can differ from its base's."""
        return not self.changes or any(path.split(".")[0] not in SAME_FUNCTION for path, _ in self.changes)

    def __str__(self) -> str:
        return ",".join([self.base, *(f"{path}={spelt(value)}" for path, value in self.changes)])


def put(section: Any, path: str, value: Any) -> Any:
    """`section` with the field at a dotted path replaced."""
    name, _, rest = path.partition(".")
    return replace(section, **{name: put(getattr(section, name), rest, value) if rest else value})


def put_all(model: Model, changes: tuple[Change, ...]) -> Model:
    """The model with all changes made at once, so that only the result has to be a model that can be."""
    fields: dict[str, Any] = {}
    for path, value in changes:
        name, _, rest = path.partition(".")
        fields[name] = put(fields.get(name, getattr(model, name)), rest, value) if rest else value
    return replace(model, **fields)


def kinds_of(section: Section) -> Iterator[type[Kind]]:
    """The kinds that a section has chosen, at any depth."""
    for name in field_types(type(section)):
        value = getattr(section, name)
        if isinstance(value, Kind):
            yield type(value)
        if isinstance(value, Section):
            yield from kinds_of(value)


CHOSEN = {kind for model in BASES.values() for kind in kinds_of(model)}


def options(hint: Any, number: float | None) -> Iterator[Any]:
    """The values that a type offers; of numbers, the one given. A kind that no base has comes with its own choices."""
    if is_family(hint):
        for member in hint.members().values():
            if issubclass(member, APART):
                continue
            yield member()
            own = [] if member in CHOSEN else alternatives(member(), "")
            yield from (put(member(), path, value) for path, value in own)
    elif get_origin(hint) is Literal:
        yield from (word for word in get_args(hint) if word not in UNUSABLE)
    elif get_origin(hint) in (Union, types.UnionType):
        for arm in get_args(hint):
            yield from options(arm, number)
    elif hint is types.NoneType:
        yield None
    elif hint is bool:
        yield from (False, True)
    elif hint in (int, float) and number is not None:
        yield hint(number)


def of_kind(section: Section | type[Section], name: str) -> str:
    """A field's name with that of its kind before it, where it is one's."""
    return f"{section.kind}.{name}" if hasattr(section, "kind") else name  # type: ignore[union-attr]


def unvaried(section: Section | type[Section], name: str) -> bool:
    own = of_kind(section, name)
    return own in UNVARIED or (name in UNVARIED and own not in NUMBERS)


def alternatives(section: Section, base: str) -> Iterator[Change]:
    """Every change of one field of a section, at any depth. Of mixers, feed-forwards and heads the other base has its
    own alone: patterns try each of the first two again.
    """
    for name, hint in field_types(type(section)).items():
        current = getattr(section, name)
        around, number = NUMBERS.get(of_kind(section, name), NUMBERS.get(name, (None, None)))
        skipped = unvaried(section, name) or (name in ("mixer", "feedforward", "head") and base == "llama")
        for value in () if skipped else options(hint, number if around == base else None):
            if value != current and (type(value) is not type(current) or not isinstance(value, Kind)):
                yield name, value
        if isinstance(current, Section):
            yield from ((f"{name}.{path}", value) for path, value in alternatives(current, base))


def patterns() -> Iterator[tuple[Change, ...]]:
    """Layers that differ from one another: two periods of each mixer and feed-forward after a layer of the base, and
    two periods of two layers each after a layer of another kind; a mixer without a norm; and periods that share their
    parameters.
    """
    for name, hint in field_types(Layer).items():
        if name in UNVARIED:
            continue
        family = next(arm for arm in get_args(hint) if is_family(arm))
        members = list(family.members().values())
        for member in members:
            numbers = {n: NUMBERS[n][1] for n in field_types(member) if n in NUMBERS}
            pattern = (Layer(**{name: member(**numbers)}),)
            yield ("num_layers", 3), ("first_layers", (Layer(),)), ("pattern", pattern)
        other = Layer(**{name: members[-1]()})
        yield ("num_layers", 5), ("first_layers", (other,)), ("pattern", (Layer(), other))
    yield ("num_layers", 2), ("first_layers", (Layer(mixer_norm=NoNorm()),))
    yield ("num_layers", 3), ("sharing", "periods")
    pattern = (Layer(), Layer(mixer=GRU()))  # whose caches and states are each layer's own still
    yield ("num_layers", 5), ("sharing", "periods"), ("first_layers", (Layer(),)), ("pattern", pattern)


def pairs(singles: list[Variant]) -> list[Variant]:
    """Two changes at once, of fields neither of which is inside the other, that fit together."""
    drawn = random.Random(0)
    found: list[Variant] = []
    while len(found) < PAIRS:
        one, other = drawn.sample(singles, 2)
        both = Variant(one.base, one.changes + other.changes)
        nested = any(f"{a}.".startswith(f"{b}.") for a, _ in one.changes for b, _ in other.changes)
        nested |= any(f"{b}.".startswith(f"{a}.") for a, _ in one.changes for b, _ in other.changes)
        if one.base == other.base and not nested and fits(both) and both not in found:
            found.append(both)
    return found


def once(singles: Iterable[Variant]) -> list[Variant]:
    """Kinds around every base that they fit; their own choices, words and numbers around the first that lacks them."""
    kept: dict[Any, Variant] = {}
    for variant in singles:
        ((path, value),) = variant.changes
        owner = type(reduce(getattr, path.split(".")[:-1], BASES[variant.base]))
        whole_kind = isinstance(value, Kind) and value == type(value)()
        kept.setdefault((owner, path, value, whole_kind and variant.base), variant)
    return list(kept.values())


def fits(variant: Variant) -> bool:
    try:
        return variant.model is not None
    except ConfigError:
        return False


def spelt(value: Any) -> str:
    """A value in a test's name: of a section, what differs from its defaults."""
    if isinstance(value, tuple):
        return "+".join(map(spelt, value))
    if not isinstance(value, Section):
        return str(value)
    plain = type(value)()
    changed = [n for n in field_types(type(value)) if getattr(value, n) != getattr(plain, n)]
    kind = [value.kind] if isinstance(value, Kind) else []
    return ".".join([*kind, *(f"{n}={spelt(getattr(value, n))}" for n in changed)]) or "same"


CHANGES = [Variant(name, (change,)) for name, model in BASES.items() for change in alternatives(model, name)]
SINGLES = once(variant for variant in CHANGES if fits(variant))
PATTERNS = [Variant("gpt", changes) for changes in patterns()]
VARIANTS = [*map(Variant, BASES), *SINGLES, *PATTERNS, *pairs(SINGLES + PATTERNS)]
# Bases of two layers, and every way that layers can follow one another.
LAYOUTS = [*(Variant(base, (("num_layers", 2),)) for base in BASES), *PATTERNS]
