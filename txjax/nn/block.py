"""One layer: a mixer and a feed-forward, each with its norms, dropout and residual connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.config import Layer, Model
from txjax.nn.context import Context, State, constrain, sow
from txjax.nn.norm import Norm


class Block(nn.Module):
    """pre: x + f(n(x)); post: n(x + f(x)); sandwich: x + n(f(n(x))); output: x + n(f(x)), for f the mixer, then over an
    encoder for f the cross sublayer, then for f the feed-forward; in the parallel topology mixer and feed-forward read
    the same x.
    """

    model: Model
    layer: Layer

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None = None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        mixer, feedforward = self.model.mixer_of(self.layer), self.model.feedforward_of(self.layer)
        entry_BTD = x_BTD
        after: dict[str, Any] = {}
        if mixer.kind != "none":

            def mix(y: Array) -> Array:
                own = None if state is None else state.part("mixer")
                y, after["mixer"] = mixer.module(self.model, mixer.kind)(y, context, layer, own)
                return y

            x_BTD = self.join(x_BTD, self.branch("mixer", mix, x_BTD, context, layer), "mixer", context)
        if self.model.encoder is not None and (cross := self.model.cross_of(self.layer)).kind != "none":

            def read(y: Array) -> Array:
                own = None if state is None else state.part("cross")
                y, after["cross"] = cross.module(self.model, "cross")(y, context, layer, own)
                return y

            x_BTD = self.join(x_BTD, self.branch("cross", read, x_BTD, context, layer), "cross", context)
        if feedforward.kind != "none":
            parallel = self.model.topology == "parallel"

            def feed(y: Array) -> Array:
                return feedforward.module(self.model, feedforward.kind)(y, context)

            y_BTD = self.branch("feedforward", feed, entry_BTD if parallel else x_BTD, context, layer)
            x_BTD = self.join(x_BTD, y_BTD, "feedforward", context)
        x_BTD = constrain(x_BTD, "batch", "length", "embed")
        sow(self, context, "residual", x_BTD)
        return x_BTD, None if state is None else state.with_parts(after)

    def branch(
        self, name: str, f: Callable[[Array], Array], x_BTD: Array, context: Context, layer: Array | int
    ) -> Float[Array, "B T D"]:
        """What a sublayer adds to the stream."""
        placement = self.model.norm_placement
        y_BTD = f(self.norm(f"{name}_norm", x_BTD, context) if placement in ("pre", "sandwich") else x_BTD)
        if placement in ("sandwich", "output"):
            y_BTD = self.norm(f"{name}_output_norm", y_BTD, context)
        if "residual" in self.model.dropout_sites:
            y_BTD = context.drop(y_BTD, name, layer)
        sow(self, context, f"{name}_output", y_BTD)
        return y_BTD

    def join(self, x_BTD: Array, y_BTD: Array, name: str, context: Context) -> Float[Array, "B T D"]:
        """The stream after a sublayer."""
        match self.model.residual:
            case "on":
                y_BTD = x_BTD + y_BTD
            case "off":
                pass
            case float(weight):
                y_BTD = x_BTD + weight * y_BTD
        return self.norm(f"{name}_norm", y_BTD, context) if self.model.norm_placement == "post" else y_BTD

    def norm(self, name: str, x: Array, context: Context) -> Array:
        own = self.layer.mixer_norm if name.startswith("mixer_") else None
        return Norm(own or self.model.norm, name=name)(x, context)
