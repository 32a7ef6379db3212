"""A recurrent decoder that searches the encoder's states before each of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Cross
from txjax.nn.context import Context, State, sow
from txjax.nn.linear import Linear
from txjax.nn.parameters import declare
from txjax.nn.recurrent import AXES, Inputs, Recurrent
from txjax.ops.masks import Mask
from txjax.ops.recurrence import gru_search
from txjax.schema import require


class Searched(NamedTuple):
    """The decoder's own state, (B, D), and the encoder's states with the keys made of them, (B, S, D)."""

    hidden: Array
    keys: Array
    values: Array


@dataclass(frozen=True)
class Search(Cross, kind="search"):
    """tanh(W [h_t; x_t; c_t]) over a GRU's state h_t, whose gates read x_t and c_t = sum_j a_j m_j, over the encoder's
    states m, a = softmax_j(v tanh(W_h h_(t-1) + W_m m_j)): RNNsearch, Bahdanau et al. 2015, sections 3.1 and A.2.2.

    h_0 = tanh(W_0 m), m the encoder's state of the last token: theirs is that of the first, from a net that reads
    backwards. Their output is a maxout of the same three. The sublayer is the layer's recurrence: it needs no mixer.
    """

    def module(self, model: Model, name: str) -> SearchModule:
        return SearchModule(model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Searched:
        empty = jnp.zeros((batch, length, model.width), model.dtype)
        return Searched(jnp.zeros((batch, model.width), jnp.float32), empty, empty)

    def validate(self, model: Model) -> None:
        require(model.causal, f"causal=false needs a cross sublayer that can see later tokens, got {self.kind}")


class SearchModule(nn.Module):
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        model, D = self.model, self.model.width

        def square(name: str, bias: bool = False) -> Linear:
            return Linear(model, (D, D), ("embed", "mlp"), bias=bias, name=name)

        if context.memory is not None:
            last_BD = last_real(context.memory, context.memory_mask)
            start_BD = jnp.tanh(square("start", bias=True)(last_BD))
            before = Searched(start_BD, square("key")(context.memory), context.memory)
        else:
            assert state is not None  # a later pass: the encoder's states are not needed again
            before = state.read()
        h_BTD, c_BTD, weights_BTS, after_BD = gru_search(
            Inputs(model, 3, name="input")(x_BTD),
            before.hidden,
            Recurrent(model, 4, name="recurrent")(),
            declare(self, "b", (D,), ("state",)),
            declare(self, "found", (D, 3, D), AXES, std=model.init.spread("weight", D, model.num_layers)),
            before.keys.astype(x_BTD.dtype),
            before.values.astype(x_BTD.dtype),
            declare(self, "v", (D,), ("mlp",), std=D**-0.5),
            mask=context.memory_mask,
            real_BT=None if context.segments is None else context.segments > 0,
        )
        sow(self, context, "attention_weights", weights_BTS[:, None])
        all_BTX = jnp.concatenate([h_BTD.astype(x_BTD.dtype), x_BTD, c_BTD], -1)
        out = Linear(model, (3 * D, D), ("mlp", "embed"), role="residual", name="out")
        return jnp.tanh(out(all_BTX)), None if state is None else state.write(before._replace(hidden=after_BD))


def last_real(memory_BSD: Float[Array, "B S D"], mask: Mask | None) -> Float[Array, "B D"]:
    """The encoder's state of the last token that the mask shows."""
    if mask is None:
        return memory_BSD[:, -1]
    S = memory_BSD.shape[1]
    real_BS = mask(jnp.zeros((1, 1), jnp.int32), jnp.arange(S))[:, 0, 0]
    last_B = S - 1 - jnp.argmax(real_BS[:, ::-1], axis=1)
    return jnp.take_along_axis(memory_BSD, last_B[:, None, None], axis=1)[:, 0]
