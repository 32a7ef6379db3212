"""How the weights move: optimizer, schedule, decay, clipping and parameter groups."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from txjax.ops.schedules import Constant, Schedule
from txjax.schema import ConfigError, Kind, Section, require


class Optimizer(Kind, home="txjax.train.optimizers"):
    """A gradient transformation before learning rate, decay and groups are applied to it."""

    def direction(self, axes: Any) -> Any:
        """The optax transformation from gradients to a descent direction; `axes` are the parameters' axis names."""
        raise NotImplementedError


@dataclass(frozen=True)
class Group(Section):
    """Parameters whose path matches `match` (a regular expression, searched), and what differs for them.

    Paths are those of the tree, joined by '/', such as layers/block_0/attention/query/w; stacking the layers does
    not change them. learning_rate and weight_decay multiply optim's own; a learning_rate of 0 freezes.
    layers: the numbers of the layers it is for, from 0, in the decoder and in an encoder; none: all, and what is
        outside of them.
    """

    match: str
    learning_rate: float = 1.0
    weight_decay: float = 1.0
    layers: tuple[int, ...] | None = None

    def has(self, path: str, layer: int | None) -> bool:
        """Whether it is for the parameter of that path in that layer, or outside of the layers."""
        return (self.layers is None or layer in self.layers) and re.search(self.match, path) is not None

    def check(self) -> None:
        require(
            self.layers is None or all(layer >= 0 for layer in self.layers),
            f"layers must be numbers from 0, or none, got {self.layers}",
        )
        try:
            re.compile(self.match)
        except re.error as error:
            raise ConfigError(f"match must be a regular expression, got {self.match!r}: {error}") from None


UNDECAYED = Group(match=r"(^|/)(\w*norm|embedding|position|b)(/|$)", weight_decay=0.0)


def layerwise(decay: float, num_layers: int) -> tuple[Group, ...]:
    """Groups by which each layer's rate is `decay` of that of the next one, and that of embedding, positions and all
    before the layers `decay` of the first layer's; the last layer and the head have the whole rate. Norms, biases and
    embeddings are not decayed. Clark et al. 2020 ("ELECTRA"), table 7.
    """
    require(0 < decay <= 1, f"decay must be above 0 and at most 1, got {decay}")
    rates = {(layer,): decay ** (num_layers - 1 - layer) for layer in range(num_layers)}
    return (
        Group(r"^(encoder/)?(embedding|embedding_norm|position|embedding_projection/b)(/|$)", decay**num_layers, 0.0),
        Group(r"^(encoder/)?embedding_projection/", decay**num_layers),
        *(replace(UNDECAYED, layers=layers, learning_rate=rate) for layers, rate in rates.items()),
        *(Group("", rate, layers=layers) for layers, rate in rates.items()),
        UNDECAYED,
    )


@dataclass(frozen=True)
class Optim(Section):
    """learning_rate is the schedule's peak. The order is: clip, optimizer, weight decay, learning rate.

    clip: largest global norm of the gradient, or none.
    weight_decay: decoupled (Loshchilov and Hutter 2019): w <- w - rate * (direction + weight_decay * w).
    groups: the first that matches a parameter counts; norms, biases and embeddings are not decayed by default.
    """

    learning_rate: float = 1e-3
    optimizer: Optimizer = field(default_factory=lambda: Optimizer.members()["adamw"]())
    schedule: Schedule = field(default_factory=Constant)
    weight_decay: float = 0.1
    clip: float | None = 1.0
    groups: tuple[Group, ...] = (UNDECAYED,)

    def check(self) -> None:
        require(self.learning_rate >= 0, f"learning_rate must not be negative, got {self.learning_rate}")
        require(self.weight_decay >= 0, f"weight_decay must not be negative, got {self.weight_decay}")
        require(self.clip is None or self.clip > 0, f"clip must be positive or none, got {self.clip}")
