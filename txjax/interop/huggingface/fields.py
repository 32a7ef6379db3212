"""config.json as a table: entries that say which fields of theirs are which of a Model.

An entry reads a config into values of ours by their dotted paths, `to_ours`, and writes a model back, `to_theirs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from txjax.config import Layer, Model
from txjax.interop.fits import arranged
from txjax.nn.mixers.attention import SelfAttention
from txjax.ops.positions import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling
from txjax.ops.positions.rope import NoScaling
from txjax.schema import ConfigError, field_types, flatten, from_dict, nearest

NEEDED = object()  # a default: there is none
ABSENT = object()  # of a field that the model has not: the family puts its own there, and names what differs


class Entry(Protocol):
    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Values of Model by their paths; ConfigError where theirs has no counterpart."""
        ...

    def to_theirs(self, model: Model) -> dict[str, Any]:
        """Fields of config.json; of a model that the family cannot hold, anything: the family compares what comes."""
        ...


@dataclass(frozen=True)
class Field:
    """theirs: a field of config.json. ours: a path in Model. default: what their code takes where it is absent.
    words: their word for a value of ours, where the two differ; the first of several is the one that is written.
    also: another name of theirs for it, read and never written.
    """

    theirs: str
    ours: str
    default: Any = NEEDED
    words: Mapping[Any, Any] | None = None
    also: str | None = None

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        value = config.get(self.theirs, config.get(self.also or "", self.default))
        if value is NEEDED:
            raise ConfigError(f"config.json has no {self.theirs}{nearest(self.theirs, config)}")
        if self.words is not None:
            word = tuple(value) if isinstance(value, list) else value
            if word not in self.words:
                known = ", ".join(str(known) for known in self.words)
                raise ConfigError(f"config.json: {self.theirs}={value!r} is not known here: one of {known}")
            value = self.words[word]
        return {self.ours: value}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        value = flatten(model).get(self.ours, ABSENT)
        if self.words is not None:
            value = next((word for word, ours in self.words.items() if ours == value), next(iter(self.words)))
        return {self.theirs: value}


@dataclass(frozen=True)
class Fixed:
    """A field of config.json of which only one value can be held; absent, it has that value."""

    theirs: str
    value: Any

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        given = config.get(self.theirs, self.value)
        if given != self.value:
            raise ConfigError(f"config.json: {self.theirs}={given!r} cannot be held, only {self.value!r}")
        return {}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {self.theirs: self.value}


@dataclass(frozen=True)
class Written:
    """A field of config.json that says nothing of the model, whose default there would not do."""

    theirs: str
    value: Any

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {self.theirs: self.value}


@dataclass(frozen=True)
class Same:
    """A field of config.json that must be another's value where it is given; ours: that one's path in Model."""

    theirs: str
    other: str
    ours: str

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        given, other = config.get(self.theirs), config.get(self.other)
        if given is not None and given != other:
            raise ConfigError(
                f"config.json: {self.theirs}={given!r} cannot be held, only that of {self.other}={other!r}"
            )
        return {}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {self.theirs: flatten(model).get(self.ours, ABSENT)}


@dataclass(frozen=True)
class QueryScale:
    """A number n in config.json where ours is the scale of the scores, 1/sqrt(n)."""

    theirs: str
    default: float

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"attention.scale": config.get(self.theirs, self.default) ** -0.5}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        n = model.attention.scale**-2  # type: ignore[operator]  a number, in a model that is spelt out
        return {self.theirs: round(n) if round(n) ** -0.5 == model.attention.scale else n}


# ---------------------------------------------------------------- rotary positions

SCALINGS: dict[str, type[RopeScaling]] = {
    "default": NoScaling,
    "linear": LinearScaling,
    "llama3": Llama3Scaling,
    "yarn": YarnScaling,
}
PARAMETERS = {  # of all scalings: theirs and ours
    "factor": "factor",
    "low_freq_factor": "low_factor",
    "high_freq_factor": "high_factor",
    "original_max_position_embeddings": "original_context",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "truncate": "truncate",
}


@dataclass(frozen=True)
class Rotary:
    """position=rope: base, scaling, and the share of a head that is turned. Read in the form of transformers 5
    (rope_parameters) and in that of 4 (fields of their own, and rope_scaling); written in the latter, which both read.

    theta, fraction, scaling: where the file does not say. fraction_name: of a family that turns a share, or none.
    mscale: fields of yarn that both are its mscale; a family without them has 1. Where the file does not say from which
    context a scaling starts, it is the model's.
    """

    theta: float = 10_000.0
    theta_name: str = "rope_theta"
    fraction: float = 1.0
    fraction_name: str | None = None
    scaling: RopeScaling = NoScaling()
    mscale: tuple[str, ...] = ()

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        given = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
        scaled = bool(given)
        old = given.pop("type", "default")  # the name of rope_type in old files
        kind = given.pop("rope_type", old)
        theta = given.pop("rope_theta", config.get(self.theta_name, self.theta))
        fraction = given.pop("partial_rotary_factor", config.get(self.fraction_name or "", self.fraction))
        if kind == "yarn" and self.mscale:
            given["mscale"] = self._one(given)
        values = {"position.rope.theta": theta, "position.rope.fraction": fraction}
        scaling = _scaling(kind, given, config.get("max_position_embeddings")) if scaled else self.scaling
        return values | {"position.rope.scaling": scaling}

    def _one(self, given: dict[str, Any]) -> float:
        """What all fields of `mscale` say."""
        said = [given.pop(name, None) for name in self.mscale]
        if not said[0] or set(said) != {said[0]}:
            raise ConfigError(f"config.json: {' and '.join(self.mscale)} must be one number, are {said}")
        return said[0]

    def to_theirs(self, model: Model) -> dict[str, Any]:
        said = flatten(model)
        fields: dict[str, Any] = {self.theta_name: said.get("position.rope.theta", self.theta)}
        if self.fraction_name is not None:
            fields[self.fraction_name] = said.get("position.rope.fraction", self.fraction)
        kind = said.get("position.rope.scaling.kind")
        words = {ours.kind: theirs for theirs, ours in SCALINGS.items() if theirs != "default"}
        if kind in words:
            path = f"position.rope.scaling.{kind}"
            own = {theirs: said[f"{path}.{ours}"] for theirs, ours in PARAMETERS.items() if f"{path}.{ours}" in said}
            same = dict.fromkeys(self.mscale if kind == "yarn" else (), said.get(f"{path}.mscale"))
            fields["rope_scaling"] = {"rope_type": words[kind]} | own | same
        elif self.scaling != NoScaling():
            fields["rope_scaling"] = {"rope_type": "default"}
        return fields


def _scaling(kind: str, given: Mapping[str, Any], context: int | None) -> RopeScaling:
    if kind not in SCALINGS:
        raise ConfigError(f"config.json: rope_type={kind!r} is not known here: one of {', '.join(SCALINGS)}")
    if kind == "default":
        return NoScaling()
    own = {PARAMETERS.get(name, name): value for name, value in given.items() if value is not None}
    if context is not None and "original_context" in field_types(SCALINGS[kind]):
        own.setdefault("original_context", context)
    return from_dict(SCALINGS[kind], own, f"config.json: rope_type={kind}")


# ---------------------------------------------------------------- windows


def windows_of(model: Model) -> list[int | None]:
    """The window of each layer's attention."""
    mixers = (model.mixer_of(layer) for layer in model.layers)
    return [mixer.window if isinstance(mixer, SelfAttention) else None for mixer in mixers]


@dataclass(frozen=True)
class Window:
    """One window for all layers, or none."""

    theirs: str = "sliding_window"
    default: int | None = None

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"mixer": SelfAttention(window=config.get(self.theirs, self.default))}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        return {self.theirs: windows_of(model)[0]}


@dataclass(frozen=True)
class LayerTypes:
    """A window in some of the layers, those that layer_types calls sliding_attention.

    period: of layer_types where the file has none: True for a layer with a window. switch: a field that turns all
    windows off unless it is true; then layers from max_window_layers on have one.
    """

    period: tuple[bool, ...] = (False,)
    switch: str | None = None
    default: int | None = 4096

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        window = config.get("sliding_window", self.default)
        if self.switch is not None and not config.get(self.switch, False):
            window = None
        sliding = self._sliding(config)
        layers = [Layer(mixer=SelfAttention(window=window if own else None)) for own in sliding]
        return arranged(layers)

    def _sliding(self, config: Mapping[str, Any]) -> Iterable[bool]:
        count = config["num_hidden_layers"]
        if config.get("layer_types") is not None:
            return [word == "sliding_attention" for word in config["layer_types"]]
        if self.switch is not None:
            return [i >= config.get("max_window_layers", 28) for i in range(count)]
        return [self.period[i % len(self.period)] for i in range(count)]

    def to_theirs(self, model: Model) -> dict[str, Any]:
        windows = windows_of(model)
        words = ["full_attention" if window is None else "sliding_attention" for window in windows]
        window = next((window for window in windows if window is not None), None)
        fields = {"layer_types": words, "sliding_window": window}
        return fields if self.switch is None else fields | {self.switch: window is not None}
