"""Linear attention as a layer's mixer."""

from __future__ import annotations

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.config.model import Model
from txjax.nn.attention import check_heads, join_heads, split_heads
from txjax.nn.context import Context, State
from txjax.nn.recurrent import FixedState, remember
from txjax.ops.recurrence import LinearState, linear_attention
from txjax.schema import require


@dataclass(frozen=True)
class LinearAttention(FixedState, kind="linear_attention"):
    """Attention with the weights f(q) f(k) / sum f(q) f(k), f(x) = elu(x) + 1, in place of a softmax, with the heads of
    model.attention: a state of head_dim^2 + head_dim numbers a head. Its queries and keys are not scaled, rotated or
    normed. See txjax.ops.recurrence.linear_attention. Katharopoulos et al. 2020.

    chunk: tokens whose weights are held at once; values do not depend on it.
    """

    chunk: int = 64

    def check(self) -> None:
        require(self.chunk > 0, f"chunk must be at least 1, got {self.chunk}")

    def validate(self, model: Model) -> None:
        super().validate(model)
        check_heads(model)

    def module(self, model: Model, name: str) -> LinearAttentionModule:
        return LinearAttentionModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> LinearState:
        K, H = model.num_kv_heads, model.head_dim
        return LinearState(jnp.zeros((batch, K, H, H), jnp.float32), jnp.zeros((batch, K, H), jnp.float32))


class LinearAttentionModule(nn.Module):
    mixer: LinearAttention
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        model = self.model

        def sequence(
            x_BTD: Array, initial: LinearState, *, segments_BT: Int[Array, "B T"] | None
        ) -> tuple[Array, LinearState]:
            q_BNTH = split_heads(model, "query", x_BTD, model.attention.num_heads, "heads")
            k_BKTH = split_heads(model, "key", x_BTD, model.num_kv_heads, "kv_heads")
            v_BKTH = split_heads(model, "value", x_BTD, model.num_kv_heads, "kv_heads")
            y_BNTH, last = linear_attention(
                q_BNTH, k_BKTH, v_BKTH, initial, chunk=self.mixer.chunk, segments_BT=segments_BT
            )
            return join_heads(model, y_BNTH), last

        return remember(sequence, self.mixer, model, x_BTD, context, state)
