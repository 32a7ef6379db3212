"""What every layer of one forward pass shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen import spmd
from jaxtyping import Array, Float, Int

from txjax.ops.dropout import dropout
from txjax.ops.masks import Bias, Mask
from txjax.ops.positions import Position
from txjax.ops.pytree import pytree, static

SITES = {"embedding": 0, "attention": 1, "mixer": 2, "feedforward": 3, "cross": 4, "cross_attention": 5, "head": 6}


@pytree
class HeadEdit:
    """What a probe makes of each head's output y before it is projected: g y + (1 - g) z, for gates g of every layer,
    row and head, and z `instead`, or 0 where that is None.
    """

    gates: Float[Array, "L #B N"]
    instead: Float[Array, "L #B N #T W"] | None = None


@pytree
class Knobs:
    """Numbers that may be traced, so that a study over them compiles once.

    scale: of the attention scores. dropout: the rate, where the config has it on. heads: by part (self, cross,
    encoder), what is done to the heads of softmax attention; None, as always but in probes: nothing, and the program
    has no operation for it.
    """

    scale: Float[Array, ""]
    dropout: Float[Array, ""]
    heads: Mapping[str, HeadEdit] | None = None

    @property
    def of_encoder(self) -> Knobs:
        """As the encoder under a decoder reads them, whose heads are `self` to its own layers."""
        edit = (self.heads or {}).get("encoder")
        return replace(self, heads=None if edit is None else {"self": edit})


@pytree
class Rotation:
    """The angles by which a position scheme turns vectors of one width, or None where it turns none."""

    scheme: Position = static()
    width: int = static()
    angles: tuple[Array, Array] | None


@pytree
class Context:
    """rotations, mask, bias: of the positions, made once for all layers. segments: documents packed into each row, from
    1, and 0 on padding; None where every token is real and of one document. offset: tokens cached in each row before
    this pass, or None where nothing is. memory: the encoder's last states, in a pass that reads them; memory_mask:
    which of them are real. key: of dropout, or None where it is off. train: whether this pass is a training step's.
    capture: names of what to sow.
    """

    knobs: Knobs
    rotations: tuple[Rotation, ...] = ()
    mask: Mask | None = None
    bias: Bias | None = None
    segments: Int[Array, "B T"] | None = None
    offset: Int[Array, " B"] | None = None
    memory: Float[Array, "B S D"] | None = None
    memory_mask: Mask | None = None
    key: Array | None = None
    train: bool = static(default=False)
    capture: tuple[str, ...] = static(default=())

    def rotate(self, x_BNTH: Float[Array, "B N T H"], scheme: Position) -> Float[Array, "B N T H"]:
        """Queries or keys, turned by a scheme that the layer's mixer has named (Mixer.rotates)."""
        of = {(r.scheme, r.width): r.angles for r in self.rotations}
        angles = of[scheme, x_BNTH.shape[-1]]
        return x_BNTH if angles is None else scheme.rotate(x_BNTH, angles)

    def dropout_of(self, site: str, layer: Array | int) -> tuple[Array, Array] | None:
        """Key and rate of a dropout site in a layer, or None where dropout is off.

        The key depends on the layer's number and the site's name alone: arms that differ elsewhere drop alike.
        """
        if self.key is None:
            return None
        return jax.random.fold_in(jax.random.fold_in(self.key, layer), SITES[site]), self.knobs.dropout

    def drop(self, x: Array, site: str, layer: Array | int) -> Array:
        how = self.dropout_of(site, layer)
        return x if how is None else dropout(x, *how)


def constrain(x: Array, *axes: str) -> Array:
    """x, laid out by the logical names of its axes; nothing where no mesh is set."""
    return spmd.with_logical_constraint(x, axes)  # type: ignore[return-value]


class State(NamedTuple):
    """What a layer remembers from pass to pass: entry `index` of `stacked`, in which layers that are scanned together
    lie on the first axis. So a step of decoding writes its token in place.
    """

    stacked: Any
    index: Array | int

    def read(self) -> Any:
        return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, self.index, keepdims=False), self.stacked)

    def write(self, new: Any) -> State:
        """With the layer's own replaced, each in the type that it was kept in."""

        def put(old: Array, own: Array) -> Array:
            return jax.lax.dynamic_update_index_in_dim(old, own.astype(old.dtype), self.index, 0)

        return self._replace(stacked=jax.tree.map(put, self.stacked, new))

    def part(self, name: str) -> State:
        """Of one sublayer, where `stacked` is a dict of them."""
        return self._replace(stacked=self.stacked[name])

    def with_parts(self, parts: Mapping[str, State]) -> State:
        """With the states of those sublayers replaced."""
        return self._replace(stacked=self.stacked | {name: part.stacked for name, part in parts.items()})


def sow(module: nn.Module, context: Context, name: str, value: Any) -> None:
    """Keep an intermediate value for the caller, if it asked for it."""
    if name in context.capture:
        module.sow("captured", name, value)


def _latest(old: Any, new: Any) -> Any:
    return new


def add_loss(module: nn.Module, name: str, value: Float[Array, ""]) -> None:
    """A loss of the layer's own, weighted and summed over the tokens of the batch: training adds it to the model's."""
    module.sow("losses", name, value, init_fn=lambda: jnp.zeros(()), reduce_fn=jnp.add)


def add_figure(module: nn.Module, name: str, value: Float[Array, ""]) -> None:
    """A number to be logged, averaged over the layers that give one."""
    module.sow("figures", name, value, init_fn=lambda: None, reduce_fn=_latest)


def set_parameter(module: nn.Module, name: str, value: Array) -> None:
    """A parameter of this module's that no gradient moves (running statistics, say): its value after this step."""
    module.sow("updates", name, value, init_fn=lambda: None, reduce_fn=_latest)


KEPT = ("captured", "losses", "figures", "updates")  # collections of what the above keep
