"""What mixers share whose memory is a state of fixed size: the law of their weights, and how they decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Mixer
from txjax.nn.context import Context, State, constrain
from txjax.nn.parameters import Mean, declare
from txjax.ops.linear import linear
from txjax.schema import require


@dataclass(frozen=True)
class FixedState(Mixer):
    """A mixer that reads tokens in their order into a state, which does not grow with the text."""

    ordered: ClassVar[bool] = True
    grows: ClassVar[bool] = False

    def validate(self, model: Model) -> None:
        require(model.causal, f"causal=false needs a mixer that can see later tokens, got {self.kind}")


@dataclass(frozen=True)
class Stepwise(FixedState):
    """A mixer whose next state needs the last one.

    unroll: steps that are laid out in one round of the loop over tokens; values do not depend on it.
    """

    unroll: int = 1

    def check(self) -> None:
        require(self.unroll > 0, f"unroll must be at least 1, got {self.unroll}")


AXES = ("embed", "gates", "state")  # a state stays whole: its steps would have to gather it one by one


class Inputs(nn.Module):
    """What each token brings to each gate, at all tokens as one product. Gates are as wide as the model."""

    model: Model
    gates: int
    bias_start: Mean = 0.0

    @nn.compact
    def weights(self) -> tuple[Float[Array, "D G D"], Float[Array, "G D"]]:
        D = self.model.width
        std = self.model.init.spread("weight", D, self.model.num_layers)
        w_DGD = declare(self, "w", (D, self.gates, D), AXES, std=std)
        return constrain(w_DGD, *AXES), declare(self, "b", (self.gates, D), AXES[1:], mean=self.bias_start)

    def __call__(self, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T G D"]:
        w_DGD, b_GD = self.weights()
        # by time, as the steps will read it: to turn the narrow side round costs less than the gates
        x_TBGD = linear(jnp.swapaxes(x_BTD, 0, 1), w_DGD, b_GD)
        return jnp.swapaxes(x_TBGD, 0, 1)


class Recurrent(nn.Module):
    """The weights between the states of neighbouring steps. They start at N(0, 1/D) whatever the model's other weights
    do: a product with them then keeps a state's length on average, and its eigenvalues fill the unit disc. With GPT-2's
    0.02 a state would be lost within a few steps. Not orthogonal: LAPACK's QR in a program over 8 CPU devices hung.
    """

    model: Model
    gates: int

    @nn.compact
    def __call__(self) -> Float[Array, "D G D"]:
        D = self.model.width
        w_DGD = declare(self, "w", (D, self.gates, D), AXES, std=D**-0.5)
        return constrain(w_DGD, *AXES)  # gathered over fsdp once, before the first step


def remember(
    sequence: Callable[..., tuple[Array, Any]],
    mixer: Mixer,
    model: Model,
    x_BTX: Float[Array, "B T ..."],
    context: Context,
    state: State | None,
) -> tuple[Float[Array, "B T D"], State | None]:
    """sequence(x, initial state, segments_BT=...) from where the layer's state has got to; outside of decoding, from
    an empty one.
    """
    initial = mixer.state(model, x_BTX.shape[0], 0) if state is None else state.read()
    y_BTD, last = sequence(x_BTX, initial, segments_BT=context.segments)
    y_BTD = constrain(y_BTD.astype(x_BTX.dtype), "batch", "length", "embed")  # the stream's own layout
    return y_BTD, None if state is None else state.write(last)
