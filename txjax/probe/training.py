"""Probes that a run takes of itself while it trains (log.probes): a name, and a number for each layer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.config import Config
from txjax.models import Model
from txjax.nn.context import Knobs
from txjax.probe.attention import entropy, saturation, score_variance
from txjax.probe.gradients import gradient_norms, weight_gradients
from txjax.probe.layers import captured
from txjax.schema import ConfigError, nearest

FIGURES = "probe/"  # and NAME/layer_I: what a run logs


@dataclass(frozen=True)
class AttentionProbe:
    """measure: of what one layer's pass leaves under the names in `capture`. theory: what a config's layers would have;
    None where none is known.
    """

    capture: tuple[str, ...]
    measure: Callable[..., Array]
    theory: Callable[[Config], float | None]


def keys_of_rows(config: Config) -> list[int] | None:
    """How many keys each row of an attention sees; None where windows make it another number in each layer."""
    mixers = map(config.model.mixer_of, config.model.layers)
    if any(getattr(mixer, "window", None) is not None for mixer in mixers):
        return None
    length = config.context
    return list(range(1, length + 1)) if config.model.causal else [length] * length


def _even_entropy(config: Config) -> float | None:
    keys = keys_of_rows(config)
    return None if keys is None else statistics.fmean(map(math.log, keys))


def _even_saturation(config: Config) -> float | None:
    keys = keys_of_rows(config)
    return None if keys is None else statistics.median(1 / n for n in keys)


ATTENTION = {
    # mean over rows of -sum p log p, in nats; theory: of even weights, the most that there can be
    "softmax_entropy": AttentionProbe(("attention_weights",), lambda weights: entropy(weights).mean(), _even_entropy),
    # median over rows of sum p^2: 1 where one key has all; theory: of even weights, the least that there can be
    "softmax_saturation": AttentionProbe(
        ("attention_weights",), lambda weights: 1 - saturation(weights).slope, _even_saturation
    ),
    # of q k, not scaled; theory: d_k, where components are independent, of mean 0 and variance 1 (Vaswani et al. 2017)
    "score_variance": AttentionProbe(("queries", "keys"), score_variance, lambda config: float(config.model.head_dim)),
}
GRADIENT = "gradient_norm"  # of the loss in all of a layer's parameters
NAMES = (GRADIENT, *ATTENTION)


def refuse_unknown(names: Sequence[str]) -> None:
    for name in names:
        if name not in NAMES:
            raise ConfigError(
                f"log.probes: {name!r} is not a probe{nearest(name, NAMES)}: take some of {', '.join(NAMES)}"
            )


def measure(
    names: Sequence[str], model: Model, params: Any, batch: Batch, knobs: Knobs | None = None
) -> dict[str, Float[Array, " L"]]:
    """Each probe's number in each layer, in order; of attention, in the layers that have one, none where none has."""
    found = {}
    if GRADIENT in names:
        found[GRADIENT] = gradient_norms(weight_gradients(model, params, batch, knobs))
    wanted = {name: ATTENTION[name] for name in names if name in ATTENTION}
    capture = tuple(dict.fromkeys(name for probe in wanted.values() for name in probe.capture))
    if capture:
        seen = model.apply(params, batch, knobs=knobs, capture=capture, unembed=False).captured
        for name, probe in wanted.items():
            layers = zip(*(captured(seen, part) for part in probe.capture), strict=True)
            if values := [probe.measure(*parts) for parts in layers]:
                found[name] = jnp.stack(values)
    return found


def figures(values: Mapping[str, Any]) -> dict[str, float]:
    """As they are logged: probe/NAME/layer_I, layers numbered from 0 among those that have the probe."""
    return {
        f"{FIGURES}{name}/layer_{index}": float(value)
        for name, row in values.items()
        for index, value in enumerate(row)
    }


def theory(name: str, config: Config) -> float | None:
    """What a probe of a config's layers would be, where a theory says so."""
    return ATTENTION[name].theory(config) if name in ATTENTION else None
