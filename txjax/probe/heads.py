"""What single heads do: their outputs taken away, put in from another pass, weighed; and heads known by their maps.

A head here is a head's output before `out` projects it, as softmax attention has one (txjax.nn.attention.edited), in a
part of the model: self, cross or encoder. Linear attention and recurrent layers have no such heads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.models import Model
from txjax.nn.context import HeadEdit, Knobs
from txjax.ops.losses import cross_entropy
from txjax.probe.layers import Part, sown
from txjax.schema import ConfigError

Head = tuple[int, int]  # its layer and its number in it
Measure = Callable[[Model, Any, Batch, Knobs], Float[Array, ""]]  # of (model, params, batch, knobs)


def row_losses(model: Model, params: Any, batch: Batch, knobs: Knobs) -> Float[Array, " B"]:
    """The mean cross-entropy over the weighted tokens of each row, in nats; 0 where a row has none."""
    hidden_BTD = model.apply(params, batch, knobs=knobs, unembed=False).hidden
    loss_BT = cross_entropy(model.unembed(params, hidden_BTD), jnp.asarray(batch.targets))
    weights_BT = jnp.ones(batch.targets.shape) if batch.weights is None else jnp.asarray(batch.weights)
    return jnp.where(weights_BT == 0, 0.0, loss_BT * weights_BT).sum(1) / jnp.maximum(weights_BT.sum(1), 1e-9)


def mean_loss(model: Model, params: Any, batch: Batch, knobs: Knobs) -> Float[Array, ""]:
    """The mean over rows of row_losses."""
    return row_losses(model, params, batch, knobs).mean()


def head_outputs(model: Model, params: Any, batch: Batch, part: Part = "self") -> Float[Array, "L B N T W"]:
    """Of every layer, zeros where a layer has no heads; ConfigError where none has."""
    found = each_layers(model, params, batch, "head_outputs", part)
    having = [one for one in found if one is not None]
    if not having:
        raise ConfigError(f"no layer of this model's part {part!r} has heads of softmax attention")
    return jnp.stack([jnp.zeros_like(having[0]) if one is None else one for one in found])


def each_layers(model: Model, params: Any, batch: Batch, name: str, part: Part) -> list[Array | None]:
    """What every layer of a part has under a name, None where it has none."""
    return sown(model.apply(params, batch, capture=(name, "residual"), unembed=False).captured, name, part)


def has_heads(model: Model, params: Any, batch: Batch, part: Part = "self") -> bool:
    """Whether any layer of a part has heads of softmax attention."""
    shapes = jax.eval_shape(lambda: each_layers(model, params, batch, "head_outputs", part))
    return any(one is not None for one in shapes)


def with_heads(model: Model, edits: Mapping[str, HeadEdit]) -> Knobs:
    """The model's own knobs, and what is done to the heads of some parts: for Model.apply(knobs=...)."""
    return replace(model.knobs(), heads=dict(edits))


def without(
    model: Model, params: Any, batch: Batch, heads: Iterable[Head], *, part: Part = "self", to: Literal["zero", "mean"]
) -> Knobs:
    """Knobs that set the outputs of these heads to zero, or to their mean over the batch's real tokens."""
    outputs = head_outputs(model, params, batch, part)
    instead = _means(outputs, batch, part) if to == "mean" else None
    return with_heads(model, {part: HeadEdit(_gates(outputs, heads), instead)})


def patched(
    model: Model, params: Any, batch: Batch, other: Batch, heads: Iterable[Head], *, part: Part = "self"
) -> Knobs:
    """Knobs that put in the place of these heads' outputs those of a pass over another batch of the same shape: of its
    own text, or of the same one by other weights. Vig et al. 2020; Meng et al. 2022.
    """
    outputs = head_outputs(model, params, other, part)
    return with_heads(model, {part: HeadEdit(_gates(outputs, heads), outputs)})


def knockout(
    model: Model,
    params: Any,
    batch: Batch,
    *,
    part: Part = "self",
    to: Literal["zero", "mean"] = "zero",
    measure: Measure = mean_loss,
) -> Float[Array, "L N"]:
    """What the measure gains without head n of layer l, the others as they are: positive where the loss needs it. 0 in
    layers without heads. Michel et al. 2019, section 3.2.
    """
    return _knockout(params, batch, model=model, part=part, to=to, measure=measure)


@partial(jax.jit, static_argnames=("model", "part", "to", "measure"))
def _knockout(params: Any, batch: Batch, *, model: Model, part: Part, to: str, measure: Measure) -> Array:
    outputs = head_outputs(model, params, batch, part)
    instead = _means(outputs, batch, part) if to == "mean" else None
    return _one_by_one(model, params, batch, outputs, instead, part, measure)


def patching(
    model: Model, params: Any, batch: Batch, other: Batch, *, part: Part = "self", measure: Measure = mean_loss
) -> Float[Array, "L N"]:
    """What the measure of `batch` gains where head n of layer l says what it says in a pass over `other`."""
    return _patching(params, batch, other, model=model, part=part, measure=measure)


@partial(jax.jit, static_argnames=("model", "part", "measure"))
def _patching(params: Any, batch: Batch, other: Batch, *, model: Model, part: Part, measure: Measure) -> Array:
    outputs = head_outputs(model, params, other, part)
    return _one_by_one(model, params, batch, outputs, outputs, part, measure)


def importance(model: Model, params: Any, batch: Batch, *, part: Part = "self") -> Float[Array, "L N"]:
    """The mean over rows x of |d loss(x) / d g| at g = 1, for gates g that multiply the heads' outputs; loss(x) is in
    nats a token. Not divided by the layer's norm, as its authors do to compare layers. Michel et al. 2019, equation 3.
    """
    return _importance(params, batch, model=model, part=part)


@partial(jax.jit, static_argnames=("model", "part"))
def _importance(params: Any, batch: Batch, *, model: Model, part: Part) -> Array:
    L, B, N, *_ = head_outputs(model, params, batch, part).shape

    def total(gates_LBN: Array) -> Array:  # a row's loss knows its own gates alone
        return row_losses(model, params, batch, with_heads(model, {part: HeadEdit(gates_LBN)})).sum()

    return jnp.abs(jax.grad(total)(jnp.ones((L, B, N)))).mean(1)


def previous_token_score(weights: Float[Array, "*B T S"]) -> Float[Array, "*B"]:
    """The mean weight of a token, the first left out, on the one before it."""
    return _behind(weights, 1, start=1)


def induction_score(weights: Float[Array, "*B T S"], period: int) -> Float[Array, "*B"]:
    """On a text that repeats itself after `period` tokens: the mean weight of a token that has come before on what
    came after it then; 1 of a head that looks nowhere else. Olsson et al. 2022, "prefix matching".
    """
    return _behind(weights, period - 1, start=period)


def repeated_tokens(
    ids: Int[Array, " V"], key: Array, *, rows: int, period: int, repeats: int = 2
) -> Int[Array, "B T"]:
    """Rows of `period` of these ids, no one twice, in a random order, which comes `repeats` times. ValueError where
    there are fewer ids.
    """
    if len(ids) < period:
        raise ValueError(f"{len(ids)} ids are too few for a period of {period} different ones")
    once = jax.vmap(lambda key: jax.random.permutation(key, jnp.asarray(ids))[:period])(jax.random.split(key, rows))
    return jnp.tile(once, (1, repeats))


@partial(jax.jit, static_argnames=("model", "period", "first"))
def known_heads(
    model: Model, params: Any, tokens_BT: Int[Array, "B T"], *, period: int, first: int | None = None
) -> tuple[Float[Array, "L N"], Float[Array, "L N"]]:
    """Induction and previous-token score of each head of a decoder on such rows, 0 in layers without weights. first: an
    id that the model's texts begin with, which is put before them and does not count.
    """
    skip = 0 if first is None else 1
    start = jnp.full((tokens_BT.shape[0], skip), first or 0, jnp.int32)
    batch = Batch(tokens=jnp.concatenate([start, tokens_BT], 1))
    found = each_layers(model, params, batch, "attention_weights", "self")
    having = next(one for one in found if one is not None)
    maps = jnp.stack([jnp.zeros_like(having) if one is None else one for one in found])[..., skip:, skip:]
    return induction_score(maps, period).mean(1), previous_token_score(maps).mean(1)


def _behind(weights: Array, distance: int, start: int) -> Array:
    rows = jnp.arange(start, weights.shape[-2])
    return weights[..., rows, rows - distance].mean(-1)


def _gates(outputs: Float[Array, "L B N T W"], off: Iterable[Head]) -> Float[Array, "L 1 N"]:
    gates = jnp.ones((outputs.shape[0], 1, outputs.shape[2]))
    for layer, head in off:
        gates = gates.at[layer, :, head].set(0.0)
    return gates


def _means(outputs: Float[Array, "L B N T W"], batch: Batch, part: Part) -> Float[Array, "L 1 N 1 W"]:
    segments = batch.source_segments if part == "encoder" else batch.segments
    if segments is None:
        return outputs.mean((1, 3), keepdims=True)
    real_B1T1 = (jnp.asarray(segments) > 0)[:, None, :, None]
    return jnp.where(real_B1T1, outputs, 0.0).sum((1, 3), keepdims=True) / real_B1T1.sum()


def _one_by_one(
    model: Model, params: Any, batch: Batch, outputs: Array, instead: Array | None, part: Part, measure: Measure
) -> Float[Array, "L N"]:
    """The measure with one head edited, less the measure with none."""
    L, N = outputs.shape[0], outputs.shape[2]
    gates_MLN = 1 - jnp.eye(L * N + 1, L * N).reshape(-1, L, 1, N)  # in the last entry all heads are on

    def of(gates_LN: Array) -> Array:
        return measure(model, params, batch, with_heads(model, {part: HeadEdit(gates_LN, instead)}))

    values = jax.lax.map(of, gates_MLN)
    return (values[:-1] - values[-1]).reshape(L, N)
