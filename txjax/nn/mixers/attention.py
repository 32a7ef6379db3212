"""Self-attention as a layer's mixer: projections, heads, positions, cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Mixer
from txjax.nn.attention import (
    KeyValues,
    attend,
    check_heads,
    check_softmax,
    edited,
    empty_cache,
    held,
    join_heads,
    newest,
    norm_heads,
    split_heads,
    write,
)
from txjax.nn.context import Context, State, sow
from txjax.ops.masks import Window
from txjax.ops.positions import Position
from txjax.schema import require


@dataclass(frozen=True)
class SelfAttention(Mixer, kind="attention"):
    """Softmax attention with the heads of model.attention.

    window: keys a query sees, itself included, or none: all of them. While decoding a layer keeps as many. Beltagy et
    al. 2020; Jiang et al. 2023.
    position: of this layer alone, in place of model.position's rotation and bias: another rope for local layers
    (Gemma 3, 2025), or none: neither (Yang et al. 2025's mixed layers). What has a table, or adds to the embedding,
    belongs to the model.
    """

    window: int | None = None
    position: Position | None = None

    @property
    def grows(self) -> bool:  # type: ignore[override]
        return self.window is None

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.window is not None or (self.position is not None and self.position.kind != "none")

    def check(self) -> None:
        require(self.window is None or self.window > 0, f"window must be at least 1 or none, got {self.window}")

    def validate(self, model: Model) -> None:
        check_heads(model)
        check_softmax(model)
        if self.position is not None:
            sizes = {"width": model.width, "num_heads": model.attention.num_heads}
            adds = type(self.position).embed is not Position.embed
            require(
                not adds and not self.position.tables(context=model.context, **sizes),
                f"attention.position={self.position.kind} has a table or adds to the embedding, which a layer alone "
                "cannot: choose rope, alibi or none, or set model.position",
            )
            self.position.validate(head_dim=model.head_dim, **sizes)

    def rotates(self, model: Model) -> tuple[Position, int]:
        return self.position or model.position, model.head_dim

    def module(self, model: Model, name: str) -> AttentionModule:
        return AttentionModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> KeyValues:
        return empty_cache(model, batch, length if self.window is None else min(length, self.window))


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
        q_BNTH = norm_heads(model, "query_norm", q_BNTH, "heads", context)
        k_BKTH = norm_heads(model, "key_norm", k_BKTH, "kv_heads", context)
        scheme, _ = self.mixer.rotates(model)
        q_BNTH, k_BKTH = context.rotate(q_BNTH, scheme), context.rotate(k_BKTH, scheme)
        sow(self, context, "queries", q_BNTH)
        sow(self, context, "keys", k_BKTH)
        news, where = KeyValues(k_BKTH, v_BKTH), {}
        k_BKSH, v_BKSH = news
        if state is not None:
            state, where = self.remember(news, context, state)
            if context.offset is not None:  # otherwise this pass is the first, and its own keys are all there are
                k_BKSH, v_BKSH = state.read()
        mask = context.mask
        if self.mixer.window is not None:
            mask = Window(self.mixer.window) if mask is None else mask & Window(self.mixer.window)
        own = self.mixer.position
        bias = context.bias if own is None else own.bias(heads.num_heads, {}, causal=model.causal)
        y_BNTH = attend(self, model, context, layer, q_BNTH, k_BKSH, v_BKSH, mask=mask, bias=bias, **where)
        return join_heads(model, edited(self, context, layer, y_BNTH)), state

    def remember(self, news: KeyValues, context: Context, state: State) -> tuple[State, dict[str, Any]]:
        """The state with these keys and values, and where attention finds queries and keys. With a window the cache is
        a ring: position p lies in slot p mod S.
        """
        offset_B, where = context.offset, {"offset": context.offset}
        if self.mixer.window is not None:
            slots = state.stacked.keys.shape[-2]
            if offset_B is None:
                news = KeyValues(*(newest(x, context.segments, slots) for x in news))
            elif news.keys.shape[2] > 1:
                raise ValueError(
                    "a layer with a window reads one token a step: of two, one may overwrite keys of the other"
                )
            else:
                where["key_BS"] = held(offset_B, slots)
                offset_B = offset_B % slots
        pairs = zip(state.stacked, news, strict=True)
        stacked = KeyValues(*(write(old, new, state.index, offset_B) for old, new in pairs))
        return state._replace(stacked=stacked), where
