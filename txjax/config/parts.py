"""The kinds of parts that a model is put together from: what each has to offer, whichever member it is.

A member is a file of its own in the package that `home` names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from txjax.batch import Batch
from txjax.ops.positions import Position
from txjax.schema import Kind

if TYPE_CHECKING:
    from txjax.config.model import Model


class Mixer(Kind, home="txjax.nn.mixers"):
    """What moves information between the tokens of one layer; a member also builds its module, `module()`.

    ordered: whether it tells the order of tokens by itself, without positions and a mask.
    grows: whether what it carries while decoding grows with the text.
    """

    ordered: ClassVar[bool] = False
    grows: ClassVar[bool] = False

    def module(self, model: Model, name: str) -> Any:
        """The flax module of this mixer; called with (x_BTD, context, layer, state)."""
        raise NotImplementedError

    def rotates(self, model: Model) -> tuple[Position, int] | None:
        """The scheme by which it turns queries and keys, and the width of what is turned; None: it turns nothing."""
        return None

    def state(self, model: Model, batch: int, length: int) -> Any:
        """What the mixer carries while decoding: a cache for `length` tokens in each of `batch` rows, or a state."""
        return None

    def validate(self, model: Model) -> None:
        """Refuse a model that this mixer cannot serve: raise ConfigError."""


class FeedForward(Kind, home="txjax.nn.feedforwards"):
    """What works on each token alone; a member also builds its module, `module()`."""

    def module(self, model: Model, name: str) -> Any:
        """The flax module of this feed-forward; called with (x_BTD, context)."""
        raise NotImplementedError

    def idle(self, model: Model) -> int:
        """How many of its parameters a token does not use: those of the experts that it does not go to."""
        return 0

    def validate(self, model: Model) -> None:
        """Refuse a model that this feed-forward cannot serve: raise ConfigError."""


class Embedding(Kind, home="txjax.nn.embeddings"):
    """How what a batch holds becomes vectors; a member also builds its module, `module()`.

    reads: what batch.tokens holds: ids of a vocabulary, or vectors.
    """

    reads: ClassVar[Literal["ids", "vectors"]] = "ids"

    @property
    def own_width(self) -> int | None:
        """Width of its vectors where the model projects them to its own; none: they have the model's."""
        return None

    @property
    def added(self) -> int:
        """How many vectors of its own it puts before those of a row."""
        return 0

    def tokens(self, rows: int, length: int) -> jax.ShapeDtypeStruct:
        """Shape and type of batch.tokens."""
        return jax.ShapeDtypeStruct((rows, length), jnp.int32)

    def module(self, model: Model, name: str) -> Any:
        """The flax module of this embedding; called with a Batch, and the table of another one where it is shared, it
        gives its vectors, of width model.embedding_width, and the table, or None where it has none.
        """
        raise NotImplementedError

    def validate(self, model: Model) -> None:
        """Refuse a model that this embedding cannot serve: raise ConfigError."""


class Cross(Kind, home="txjax.nn.cross"):
    """What brings the encoder's states into a layer of the decoder; a member also builds its module, `module()`."""

    def module(self, model: Model, name: str) -> Any:
        """The flax module of this sublayer; called with (x_BTD, context, layer, state)."""
        raise NotImplementedError

    def state(self, model: Model, batch: int, length: int) -> Any:
        """What it keeps of `length` states of the encoder while decoding, in each of `batch` rows."""
        return None

    def validate(self, model: Model) -> None:
        """Refuse a model that it cannot serve: raise ConfigError."""


class Head(Kind, home="txjax.nn.heads"):
    """What turns hidden states into logits; a member also builds its module, `module()`.

    A classifier names the number of its classes `outputs`.
    tied: whether it uses the embedding's table. generates: whether its logits are those of a next token.
    """

    tied: ClassVar[bool] = False
    generates: ClassVar[bool] = True

    @property
    def labelled(self) -> bool:
        """Whether training reads batch.labels."""
        return False

    def module(self, model: Model, name: str) -> Any:
        """The flax module of this head; called with (hidden (..., D), embedding's table or None), it gives logits."""
        raise NotImplementedError

    def read(self, model: Model, x_BTD: Array, batch: Batch, context: Any) -> Array:
        """What it makes logits of: all of the last states, or one vector a row, (B, 1, D). Called inside the model's
        compact call, so that it may have modules and losses (txjax.nn.context.add_loss) of its own.
        """
        return x_BTD

    def validate(self, model: Model) -> None:
        """Refuse a model that this head cannot serve: raise ConfigError."""


Role = Literal["weight", "residual", "embedding"]


class Initialisation(Kind, home="txjax.nn.initialisations"):
    """The law of the initial weights."""

    def spread(self, role: Role, fan_in: int, num_layers: int) -> float:
        """Standard deviation of a matrix by what it does; `residual` writes onto the residual stream."""
        raise NotImplementedError
