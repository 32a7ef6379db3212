"""Multi-head latent attention as a layer's mixer: keys and values from one short vector a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.config.model import Model
from txjax.config.parts import Mixer
from txjax.nn.attention import attend, check_softmax, edited, join_heads, split_heads, write
from txjax.nn.context import Context, State, constrain, sow
from txjax.nn.linear import Linear
from txjax.nn.norm import Norm
from txjax.nn.parameters import declare
from txjax.ops.linear import linear
from txjax.ops.positions import Position
from txjax.schema import require


@dataclass(frozen=True)
class Latent(Mixer, kind="latent"):
    """Softmax attention whose keys and values are linear maps of n(x W), kv_rank numbers a token, for a norm n; beside
    them each key has rope_dim numbers that alone are rotated, the same for all heads. Of head_dim in model.attention
    the last rope_dim are those. num_kv_heads says nothing here: each head has keys of its own.

    What is cached is the kv_rank + rope_dim numbers. A step of decoding never makes the keys: q . (U c) is (U^T q) . c,
    and the weighted sum of the vectors c is mapped to the head's values once. DeepSeek-AI 2024 (V2), section 2.1.

    q_rank: of the queries, made in the same way; none: of x itself. kv_rank: none: 4 times the part of a head that is
    not rotated. rope_dim: none: a third of head_dim. value_dim: width of a head's values; none: of a key without its
    rotated part.
    """

    q_rank: int | None = None
    kv_rank: int | None = None
    rope_dim: int | None = None
    value_dim: int | None = None

    grows: ClassVar[bool] = True

    def check(self) -> None:
        for name in ("q_rank", "kv_rank", "rope_dim", "value_dim"):
            value = getattr(self, name)
            require(value is None or value > 0, f"{name} must be at least 1 or none, got {value}")

    def validate(self, model: Model) -> None:
        check_softmax(model)
        heads, (_, rotated) = model.attention, self.rotates(model)
        require(
            heads.implementation not in ("xla", "cudnn"),
            f"mixer=latent has queries and values of two widths, which attention.implementation="
            f"{heads.implementation} cannot serve: use recomputed, plain or blockwise",
        )
        require(heads.qk_norm == "none", "mixer=latent has norms of its own: set attention.qk_norm=none")
        require(
            rotated < model.head_dim,
            f"mixer.latent.rope_dim must leave a part of attention.head_dim={model.head_dim} alone, got {rotated}",
        )
        model.position.validate(head_dim=rotated, width=model.width, num_heads=heads.num_heads)

    def rotates(self, model: Model) -> tuple[Position, int]:
        return model.position, self.rope_dim or max(2, 2 * round(model.head_dim / 6))  # of pairs

    def widths(self, model: Model) -> tuple[int, int, int]:
        """Of a head: the key's part that is not rotated and the one that is, and the value."""
        _, rotated = self.rotates(model)
        return model.head_dim - rotated, rotated, self.value_dim or model.head_dim - rotated

    def rank(self, model: Model) -> int:
        """Of keys and values together."""
        return self.kv_rank or 4 * self.widths(model)[0]

    def module(self, model: Model, name: str) -> LatentModule:
        return LatentModule(self, model, name=name)

    def state(self, model: Model, batch: int, length: int) -> Float[Array, "B 1 S C"]:
        """A token's compressed vector and rotated part, as one head's keys."""
        return jnp.zeros((batch, 1, length, self.rank(model) + self.widths(model)[1]), model.dtype)


class LatentModule(nn.Module):
    mixer: Latent
    model: Model

    @nn.compact
    def __call__(
        self, x_BTD: Float[Array, "B T D"], context: Context, layer: Array | int, state: State | None
    ) -> tuple[Float[Array, "B T D"], State | None]:
        model, (scheme, _) = self.model, self.mixer.rotates(self.model)
        rank, (plain, rotated, value) = self.mixer.rank(model), self.mixer.widths(model)
        q_BNTP, q_BNTR = jnp.split(self.queries(x_BTD, context), [plain], axis=-1)
        # with its rotation, the other part of the product gets its temperature
        q_BNTP, q_BNTR = q_BNTP * scheme.temperature(), context.rotate(q_BNTR, scheme)
        c_BTC = Norm(model.norm, ("rank",), name="kv_norm")(Down(model, rank, name="kv_down")(x_BTD), context)
        r_B1TR = context.rotate(Down(model, rotated, name="key_rope")(x_BTD)[:, None], scheme)
        key_CNP, value_CNW = Up(model, rank, plain, name="key_up")(), Up(model, rank, value, name="value_up")()
        if state is not None:
            entry_B1TX = jnp.concatenate([c_BTC[:, None], r_B1TR], axis=-1)
            state = state._replace(stacked=write(state.stacked, entry_B1TX, state.index, context.offset))
        how: dict[str, Any] = {"mask": context.mask, "bias": context.bias, "offset": context.offset}
        if state is None or context.offset is None:  # its own keys are all there are
            k_BNTP, v_BNTW = (jnp.swapaxes(linear(c_BTC, w), 1, 2) for w in (key_CNP, value_CNW))
            r_BNTR = jnp.broadcast_to(r_B1TR, q_BNTR.shape)
            q_BNTH, k_BNTH = (jnp.concatenate(x, axis=-1) for x in ((q_BNTP, q_BNTR), (k_BNTP, r_BNTR)))
            sow(self, context, "queries", q_BNTH)
            sow(self, context, "keys", k_BNTH)
            y_BNTW = attend(self, model, context, layer, q_BNTH, k_BNTH, v_BNTW, **how)
        else:
            q_BNTC = jnp.einsum("BNTP,CNP->BNTC", q_BNTP, key_CNP.astype(q_BNTP.dtype))
            q_BNTX, k_B1SX = jnp.concatenate([q_BNTC, q_BNTR], axis=-1), state.read()
            # the keys serve as values, rotated part and all: to cut it off would copy the cache
            y_BNTX = attend(self, model, context, layer, q_BNTX, k_B1SX, k_B1SX, **how)
            y_BNTW = jnp.einsum("BNTC,CNW->BNTW", y_BNTX[..., :rank], value_CNW.astype(y_BNTX.dtype))
        return join_heads(model, edited(self, context, layer, y_BNTW)), state

    def queries(self, x_BTD: Array, context: Context) -> Float[Array, "B N T H"]:
        model, heads, rank = self.model, self.model.attention, self.mixer.q_rank
        if rank is None:
            return split_heads(model, "query", x_BTD, heads.num_heads, "heads")
        c_BTC = Norm(model.norm, ("rank",), name="query_norm")(Down(model, rank, name="query_down")(x_BTD), context)
        gain = model.head_dim**-0.5 if heads.scale == "folded" else 1.0
        shape, axes = (rank, heads.num_heads, model.head_dim), ("rank", "heads", "head_dim")
        return jnp.swapaxes(Linear(model, shape, axes, gain=gain, name="query_up")(c_BTC), 1, 2)


class Down(nn.Module):
    """x w + b, few numbers a token."""

    model: Model
    rank: int

    @nn.compact
    def __call__(self, x_BTD: Float[Array, "B T D"]) -> Float[Array, "B T C"]:
        D, axes = self.model.width, ("embed", "rank")
        w = declare(self, "w", (D, self.rank), axes, std=self.model.init.spread("weight", D, self.model.num_layers))
        b = declare(self, "b", (self.rank,), axes[1:]) if self.model.attention.qkv_bias else None
        # whole on each device: left to itself, the compiler splits the sum over tensor and moves weights to and fro
        return linear(x_BTD, constrain(w, *axes), b)


class Up(nn.Module):
    """The weights that make a part of each head of a compressed vector."""

    model: Model
    rank: int
    width: int

    @nn.compact
    def __call__(self) -> Float[Array, "C N H"]:
        shape = (self.rank, self.model.attention.num_heads, self.width)
        std = self.model.init.spread("weight", self.rank, self.model.num_layers)
        return declare(self, "w", shape, ("rank", "heads", "head_dim"), std=std)
