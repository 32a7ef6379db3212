"""Attention from the decoder's tokens to the encoder's states."""

from __future__ import annotations

from dataclasses import dataclass

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Cross
from txjax.nn.attention import KeyValues, edited, empty_cache, join_heads, split_heads
from txjax.nn.context import Context, State, sow
from txjax.ops.attention import attention


@dataclass(frozen=True)
class CrossAttention(Cross, kind="attention"):
    """Softmax attention with the heads of model.attention: queries of the decoder, keys and values of the encoder's
    last states, which are made once for a text. Without positions. Vaswani et al. 2017, section 3.2.3.
    """

    def module(self, model: Model, name: str) -> CrossAttentionModule:
        return CrossAttentionModule(model, name=name)

    def state(self, model: Model, batch: int, length: int) -> KeyValues:
        return empty_cache(model, batch, length)


class CrossAttentionModule(nn.Module):
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        model, heads = self.model, self.model.attention
        q_BNTH = split_heads(model, "query", x_BTD, heads.num_heads, "heads")
        if context.memory is not None:
            k_BKSH, v_BKSH = (
                split_heads(model, name, context.memory, model.num_kv_heads, "kv_heads") for name in ("key", "value")
            )
            state = None if state is None else state.write(KeyValues(k_BKSH, v_BKSH))
        else:
            assert state is not None  # a later pass: the encoder's states are not needed again
            k_BKSH, v_BKSH = state.read()
        y_BNTH, weights = attention(
            q_BNTH,
            k_BKSH.astype(q_BNTH.dtype),
            v_BKSH.astype(q_BNTH.dtype),
            scale=context.knobs.scale,
            mask=context.memory_mask,
            softcap=heads.softcap,
            offset=jnp.zeros((), jnp.int32),
            dropout=context.dropout_of("cross_attention", layer) if "attention" in model.dropout_sites else None,
            implementation="plain" if "attention_weights" in context.capture else heads.implementation,
            block_size=heads.block_size,
        )
        sow(self, context, "attention_weights", weights)
        return join_heads(model, edited(self, context, layer, y_BNTH, "cross")), state
