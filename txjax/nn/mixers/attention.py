"""Self-attention as a layer's mixer: projections, heads, positions, cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.config.model import Mixer, Model
from txjax.nn.attention import KeyValues, empty_cache, join_heads, split_heads
from txjax.nn.context import Context, State, sow
from txjax.nn.norm import Norm
from txjax.ops.attention import attention
from txjax.ops.masks import Window
from txjax.schema import ConfigError, require


@dataclass(frozen=True)
class SelfAttention(Mixer, kind="attention"):
    """Softmax attention with the heads of model.attention.

    window: keys a query sees, itself included, or none: all of them. position: off leaves this layer without
    rotation and bias (Yang et al. 2025's mixed layers).
    """

    window: int | None = None
    position: bool = True

    grows: ClassVar[bool] = True

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.window is not None

    def check(self) -> None:
        require(self.window is None or self.window > 0, f"window must be at least 1 or none, got {self.window}")

    def validate(self, model: Model) -> None:
        heads = model.attention
        if heads.head_dim is None and model.width % heads.num_heads:
            divisors = [n for n in range(1, model.width + 1) if model.width % n == 0]
            near = min(divisors, key=lambda n: (abs(n - heads.num_heads), n))
            raise ConfigError(
                f"attention.num_heads must divide width={model.width}, got {heads.num_heads}: "
                f"try {near}, or set attention.head_dim"
            )
        fused = heads.implementation in ("xla", "cudnn")
        require(
            not fused or heads.softcap is None,
            f"attention.softcap needs attention.implementation plain or blockwise, got {heads.implementation}",
        )
        require(
            not fused or model.dropout == 0 or "attention" not in model.dropout_sites,
            f"attention.implementation={heads.implementation} drops no attention weights: use plain or blockwise, or "
            "take attention out of dropout_sites",
        )

    def module(self, model: Model, name: str) -> AttentionModule:
        return AttentionModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> KeyValues:
        return empty_cache(model, batch, length)


class AttentionModule(nn.Module):
    mixer: SelfAttention
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        model, heads = self.model, self.model.attention
        q_BNTH = split_heads(model, "query", x_BTD, heads.num_heads, "heads")
        k_BKTH = split_heads(model, "key", x_BTD, model.num_kv_heads, "kv_heads")
        v_BKTH = split_heads(model, "value", x_BTD, model.num_kv_heads, "kv_heads")
        if heads.qk_norm:
            q_BNTH = Norm(model.norm, axis="head_dim", name="query_norm")(q_BNTH)
            k_BKTH = Norm(model.norm, axis="head_dim", name="key_norm")(k_BKTH)
        if context.angles is not None and self.mixer.position:
            q_BNTH = model.position.rotate(q_BNTH, context.angles)
            k_BKTH = model.position.rotate(k_BKTH, context.angles)
        sow(self, context, "queries", q_BNTH)
        sow(self, context, "keys", k_BKTH)
        k_BKSH, v_BKSH = k_BKTH, v_BKTH
        if state is not None:
            news = zip(state.stacked, (k_BKTH, v_BKTH), strict=True)
            stacked = KeyValues(*(write(old, new, state.index, context.offset) for old, new in news))
            state = state._replace(stacked=stacked)
            if context.offset is not None:  # otherwise this pass is the first, and its own keys are all there are
                k_BKSH, v_BKSH = state.read()
        mask = context.mask
        if self.mixer.window is not None:
            mask = Window(self.mixer.window) if mask is None else mask & Window(self.mixer.window)
        y_BNTH, weights = attention(
            q_BNTH,
            k_BKSH.astype(q_BNTH.dtype),
            v_BKSH.astype(q_BNTH.dtype),
            scale=context.knobs.scale,
            mask=mask,
            bias=context.bias if self.mixer.position else None,
            softcap=heads.softcap,
            offset=context.offset,
            dropout=context.dropout_of("attention", layer) if "attention" in model.dropout_sites else None,
            implementation="plain" if "attention_weights" in context.capture else heads.implementation,
            block_size=heads.block_size,
        )
        sow(self, context, "attention_weights", weights)
        sow(self, context, "head_outputs", y_BNTH)
        return join_heads(model, y_BNTH), state


def write(
    cache_LBKSH: Float[Array, "L B K S H"],
    new_BKTH: Float[Array, "B K T H"],
    layer: Array | int,
    offset_B: Int[Array, " B"] | None,
) -> Float[Array, "L B K S H"]:
    """The cache with T new entries in a layer, from slot 0 or from each row's offset on.

    Whoever calls has checked that they fit: what lies past the end is dropped here without a word.
    """
    new_BKTH = new_BKTH.astype(cache_LBKSH.dtype)
    if offset_B is None:
        return jax.lax.dynamic_update_slice(cache_LBKSH, new_BKTH[None], (layer, 0, 0, 0, 0))
    row_B1 = jnp.arange(offset_B.shape[0])[:, None]
    slot_BT = offset_B[:, None] + jnp.arange(new_BKTH.shape[2])
    return cache_LBKSH.at[layer, row_B1, :, slot_BT].set(jnp.swapaxes(new_BKTH, 1, 2))
