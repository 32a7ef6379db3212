"""Attention of a recurrent decoder over the encoder's states, by a score that came before scaled dot products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Cross
from txjax.nn.context import Context, State, sow
from txjax.nn.linear import Linear
from txjax.nn.parameters import declare
from txjax.ops.attention import alignment


class Memory(NamedTuple):
    """The encoder's states and the keys made of them, (B, S, D) a layer."""

    keys: Array
    values: Array


@dataclass(frozen=True)
class Alignment(Cross, kind="alignment"):
    """tanh(W [c; h]), c = sum_j a_j m_j over the encoder's states m, a = softmax_j(score(h, m_j)).

    score: additive v tanh(W_h h + W_m m) (Bahdanau et al. 2015, equation 6 of the appendix), dot h m, or general h W m
    (Luong et al. 2015, section 3.1). The state h is the decoder's of this step and c enters the layers above, as in
    Luong et al.; that of Bahdanau et al. is in txjax.nn.cross.search.
    """

    score: Literal["additive", "dot", "general"] = "additive"

    def module(self, model: Model, name: str) -> AlignmentModule:
        return AlignmentModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Memory:
        empty = jnp.zeros((batch, length, model.width), model.dtype)
        return Memory(empty, empty)


class AlignmentModule(nn.Module):
    cross: Alignment
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        D, score = self.model.width, self.cross.score

        def square(name: str) -> Linear:
            return Linear(self.model, (D, D), ("embed", "mlp"), name=name)

        query_BTD = x_BTD if score == "dot" else square("query")(x_BTD)
        towards_D = declare(self, "v", (D,), ("mlp",), std=D**-0.5) if score == "additive" else None
        if context.memory is not None:
            memory = Memory(square("key")(context.memory) if score == "additive" else context.memory, context.memory)
            state = None if state is None else state.write(memory)
        else:
            assert state is not None  # a later pass: the encoder's states are not needed again
            memory = state.read()
        keys_BSD, values_BSD = (part.astype(x_BTD.dtype) for part in memory)
        found_BTD, weights = alignment(query_BTD, keys_BSD, values_BSD, towards_D, mask=context.memory_mask)
        sow(self, context, "attention_weights", weights[:, None])
        both = jnp.concatenate([found_BTD, x_BTD], -1)
        out = Linear(self.model, (2 * D, D), ("mlp", "embed"), role="residual", name="out")
        return jnp.tanh(out(both)), state
