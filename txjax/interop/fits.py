"""Whether a format can hold a model: what it would say of it, against what the model is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from txjax.config import Encoder, Layer, Model
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.feedforwards.mixture import Mixture
from txjax.schema import ConfigError, difference

# Fields of Model that a format need not say: they do not change what the weights compute, or are training's.
FREE = ("attention.implementation", "attention.block_size", "dropout", "dropout_sites", "init", "dtype")
FREE += ("matmul_precision", "remat", "unroll")


def unlike(theirs: Model, ours: Model, free: tuple[str, ...] = ()) -> dict[str, tuple[Any, Any]]:
    """The fields, `{path: (theirs, ours)}`, in which the model that a format describes differs from ours."""
    return {
        field: values
        for field, values in difference(explicit(theirs), explicit(ours)).items()
        if not any(f"{field}.".startswith(f"{name}.") for name in FREE + free)
    }


def refuse(layout: str, differences: dict[str, tuple[Any, Any]]) -> None:
    """ConfigError that names the fields, where there are any: a layout knows only one value of each."""
    if differences:
        fields = [f"model.{field}={theirs!r} and not {ours!r}" for field, (theirs, ours) in differences.items()]
        raise ConfigError(f"{layout} holds only models with {', '.join(fields)}")


def explicit(model: Model) -> Model:
    """The model with everything spelt out that its config may leave to others, so that equal models are equal."""
    attention = replace(model.attention, num_kv_heads=model.num_kv_heads, head_dim=model.head_dim, scale=_scale(model))
    layers = [
        Layer(
            model.mixer_of(layer),
            model.cross_of(layer),
            _sized(model.feedforward_of(layer), model.width),
            None if layer.mixer_norm == model.norm else layer.mixer_norm,
        )
        for layer in model.layers
    ]
    fields = {"mixer": layers[-1].mixer, "cross": layers[-1].cross, "feedforward": layers[-1].feedforward}
    encoder = None if model.encoder is None else _encoder(model, layers[-1])
    return replace(model, attention=attention, encoder=encoder, **fields | laid_out(*_few(model, layers)))


def _encoder(model: Model, common: Layer) -> Encoder:
    """The encoder with its layers spelt out, but for what is `common`."""
    assert model.encoder is not None

    def spelt(layer: Layer) -> Layer:
        mixer, feedforward = model.mixer_of(layer), _sized(model.feedforward_of(layer), model.width)
        return Layer(
            mixer=None if mixer == common.mixer else mixer,
            feedforward=None if feedforward == common.feedforward else feedforward,
            mixer_norm=None if layer.mixer_norm == model.norm else layer.mixer_norm,
        )

    first, pattern = _few(model.encoder_model, [spelt(layer) for layer in model.encoder_model.layers])
    return replace(model.encoder, first_layers=first, pattern=pattern)


def _few(model: Model, layers: list[Layer]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """First layers and pattern: as few as can be, or where periods share their parameters, as many as there are, since
    fewer would have fewer parameters.
    """
    if model.sharing == "none":
        return shortest(layers)
    first, end = len(model.first_layers), len(model.first_layers) + len(model.pattern)
    return tuple(layers[:first]), tuple(layers[first:end])


def arranged(layers: list[Layer]) -> dict[str, Any]:
    """The fields of Model for these layers; what a layer leaves out is left to the model."""
    return laid_out(*shortest(layers))


def laid_out(first: tuple[Layer, ...], pattern: tuple[Layer, ...]) -> dict[str, Any]:
    """The fields of Model for these first layers and this pattern."""
    common, *others = pattern
    if first or others:
        return {"first_layers": first, "pattern": pattern}
    parts = {"mixer": common.mixer, "cross": common.cross, "feedforward": common.feedforward}
    said = {name: part for name, part in parts.items() if part is not None}
    return {"first_layers": (), "pattern": (Layer(mixer_norm=common.mixer_norm),)} | said


def shortest(layers: list[Layer]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """First layers and a pattern that repeats, as few as can be together."""
    count = len(layers)
    ways = (
        (first, period)
        for first in range(count)
        for period in range(1, count - first + 1)
        if layers[first:] == layers[first : first + period] * ((count - first) // period)
    )
    first, period = min(ways, key=lambda way: (sum(way), way))
    return tuple(layers[:first]), tuple(layers[first : first + period])


def _scale(model: Model) -> float:
    scale = model.attention.scale
    return {"rsqrt": model.head_dim**-0.5, "none": 1.0, "folded": 1.0}.get(scale, scale)  # type: ignore[call-overload]


def _sized(feedforward: Any, width: int) -> Any:
    """With its width, and without what training alone asks of a mixture."""
    if isinstance(feedforward, Dense):
        return replace(feedforward, hidden=feedforward.width(width))
    if isinstance(feedforward, Mixture):
        training = {
            "dispatch": "dropless",
            "capacity_factor": 1.0,
            "balance": 0.0,
            "balance_over": "batch",
            "z_loss": 0.0,
        }
        speed = None if feedforward.bias_speed is None else 0.0
        return replace(feedforward, hidden=feedforward.expert.width(width), bias_speed=speed, **training)
    return feedforward
