"""The contract that every model keeps; training, decoding, probes and the lab know nothing else of a model."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.nn.context import Knobs
from txjax.ops.pytree import pytree
from txjax.schema import ConfigError

Params = Any
Cache = Any


@pytree
class Outputs:
    """hidden: what unembed makes logits of. logits: None where the caller asked for hidden alone. aux: losses of the
    model's own, by name, each a sum over tokens. captured: the intermediates that were asked for, by name. figures:
    numbers to be logged, by name. updates: a part of the parameters' tree, with the values that parameters which no
    gradient moves have after a step of training.
    """

    hidden: Float[Array, "B T D"]
    logits: Float[Array, "B T V"] | None
    aux: dict[str, Array]
    captured: dict[str, Any]
    figures: dict[str, Array] = field(default_factory=dict)
    updates: Any = field(default_factory=dict)


@runtime_checkable
class Model(Protocol):
    """Parameters are a plain pytree of float32 arrays; every method is a pure function."""

    def init(self, key: Array) -> Params:
        """Initial parameters; a key gives the same values for each parameter that two models share."""
        ...

    def shapes(self) -> Any:
        """A tree like the parameters', of shapes and types."""
        ...

    def axes(self) -> Any:
        """A tree like the parameters', of tuples with the logical name of each axis."""
        ...

    def knobs(self) -> Knobs:
        """The config's own numbers, as values and not as constants of a program."""
        ...

    def inputs(self, rows: int, length: int) -> Batch:
        """Shapes and types of a batch that the model reads, without targets: as many tokens of source as of text."""
        ...

    def apply(
        self,
        params: Params,
        batch: Batch,
        *,
        knobs: Knobs | None = None,
        key: Array | None = None,
        capture: tuple[str, ...] = (),
        unembed: bool = True,
    ) -> Outputs:
        """One pass over whole sequences. key: of a training step's dropout, or None: not training, all dropout off and
        running statistics in use. knobs: None: the config's own.
        """
        ...

    def unembed(self, params: Params, hidden: Float[Array, "... D"]) -> Float[Array, "... V"]:
        """Logits of hidden states, in float32."""
        ...

    def prefill(self, params: Params, batch: Batch, cache_len: int) -> tuple[Float[Array, "B V"], Cache]:
        """Read prompts, right-padded where batch.segments is 0, into a cache with room for cache_len tokens a row;
        the logits are those after each row's last token.
        """
        ...

    def step(self, params: Params, tokens: Int[Array, " B"], cache: Cache) -> tuple[Float[Array, "B V"], Cache]:
        """Read one token more in each row. The caller keeps within cache_len."""
        ...

    def rows(self, cache: Cache, rows_B: Int[Array, " C"]) -> Cache:
        """The cache of these rows, in this order; one may come more than once."""
        ...


def check_length(length: int, limit: int | None, what: str) -> None:
    """Raise ConfigError where a sequence runs past a model's position table: an index there is clamped silently."""
    if limit is not None and length > limit:
        raise ConfigError(
            f"{what} of {length} tokens runs past model.context={limit}, the end of the position table: "
            "shorten it, or choose a position without a table such as model.position=rope"
        )
