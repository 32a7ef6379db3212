"""A decoder-only language model: embedding, positions, a stack of layers, a final norm, a head."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.config import Layer
from txjax.config import Model as ModelConfig
from txjax.models.base import Outputs, Params, check_length
from txjax.nn.context import Context, Knobs, constrain, sow
from txjax.nn.linear import Table
from txjax.nn.norm import Norm
from txjax.nn.parameters import declare, initialise, is_spec
from txjax.nn.stack import stack
from txjax.ops.linear import linear
from txjax.ops.masks import Causal, Mask, SameSegment
from txjax.schema import ConfigError


class Cache(NamedTuple):
    """lengths_B: tokens cached in each row. states: of the layers."""

    lengths_B: Array
    states: Any


class DecoderModule(nn.Module):
    """From tokens to hidden states; declares every parameter of the decoder."""

    model: ModelConfig

    @nn.compact
    def __call__(
        self, tokens_BT: Int[Array, "B T"], positions_BT: Int[Array, "#B T"], context: Context, states: Any = None
    ) -> tuple[Float[Array, "B T D"], Any]:
        model = self.model
        # gathered over fsdp as every weight is; looked up in its shards, the rows would have to be laid out anew
        table_VD = constrain(Table(model, model.vocab, "vocab", name="embedding")(), "vocab", "embed")
        x_BTD = table_VD[tokens_BT].astype(model.dtype)
        if model.embedding_scale == "sqrt_width":
            x_BTD = x_BTD * jnp.asarray(math.sqrt(model.width), x_BTD.dtype)
        tables = {
            name: Table(model, rows, axis, leaf=name, name="position")()
            for name, (rows, axis) in model.position.tables(model.context).items()
        }
        x_BTD = model.position.embed(x_BTD, positions_BT, tables)
        if "embedding" in model.dropout_sites:
            x_BTD = context.drop(x_BTD, "embedding", 0)
        x_BTD = constrain(x_BTD, "batch", "length", "embed")
        sow(self, context, "embedded", x_BTD)
        x_BTD, states = stack(model, x_BTD, context, states)
        if model.norm_placement != "post":  # a post-norm stack has normalised its stream already
            x_BTD = Norm(model.norm, name="final_norm")(x_BTD)
        if not model.tied_head:
            Head(model, name="head")()  # declared here, used by Decoder.unembed
        return x_BTD, states


class Head(nn.Module):
    """The matrix from hidden states to logits, where it is not the embedding's."""

    model: ModelConfig

    @nn.compact
    def __call__(self) -> Float[Array, "D V"]:
        model = self.model
        std = model.init.spread("weight", model.width, model.num_layers)
        return declare(self, "w", (model.width, model.vocab), ("embed", "vocab"), std=std)


@dataclass(frozen=True)
class Decoder:
    """The contract of txjax.models.Model for a decoder-only language model."""

    config: ModelConfig

    @property
    def module(self) -> DecoderModule:
        return DecoderModule(self.config)

    @property
    def specs(self) -> Any:
        """The parameters as declared: shapes, logical axes and laws, without values."""
        return declared(self.config.structure)

    def init(self, key: Array) -> Params:
        return initialise(self.specs, key, self.config)

    def axes(self) -> Any:
        return jax.tree.map(lambda spec: spec.names, self.specs, is_leaf=is_spec)

    def shapes(self) -> Any:
        """The parameters' shapes and types, without values."""
        return jax.tree.map(lambda spec: spec.value, self.specs, is_leaf=is_spec)

    def knobs(self) -> Knobs:
        """The config's own numbers, as values and not as constants of the program."""
        model = self.config
        named = {"rsqrt": model.head_dim**-0.5, "none": 1.0, "folded": 1.0}
        scale = named.get(model.attention.scale, model.attention.scale)  # type: ignore[arg-type]
        return Knobs(jnp.asarray(scale, jnp.float32), jnp.asarray(model.dropout, jnp.float32))

    def apply(
        self,
        params: Params,
        batch: Batch,
        *,
        knobs: Knobs | None = None,
        key: Array | None = None,
        capture: tuple[str, ...] = (),
        unembed: bool = True,
    ) -> Outputs:
        T = batch.tokens.shape[1]
        check_length(T, self.config.max_length, "a sequence")
        positions_BT = jnp.arange(T)[None] if batch.positions is None else batch.positions
        angles, bias = self._positions(positions_BT)
        context = Context(
            knobs=knobs or self.knobs(),
            angles=angles,
            mask=self._mask(batch),
            bias=bias,
            segments=batch.segments,
            key=key if self.config.dropout > 0 else None,
            capture=capture,
        )
        (hidden_BTD, _), captured = self._run(params, batch.tokens, positions_BT, context)
        logits = self.unembed(params, hidden_BTD) if unembed else None
        return Outputs(hidden_BTD, logits, aux={}, captured=captured)

    def unembed(self, params: Params, hidden: Float[Array, "... D"]) -> Float[Array, "... V"]:
        w_DV = params["embedding"]["w"].T if self.config.tied_head else params["head"]["w"]
        with jax.default_matmul_precision(self.config.matmul_precision):
            logits = linear(hidden, w_DV).astype(jnp.float32)
        cap = self.config.logit_softcap
        return logits if cap is None else cap * jnp.tanh(logits / cap)

    def empty_cache(self, batch: int, cache_len: int) -> Cache:
        """A cache of no tokens with room for cache_len in each of `batch` rows."""
        check_length(cache_len, self.config.max_length, "a cache")
        model = self.config

        def states(layer: Layer, count: int) -> Any:
            """Those of `count` layers, stacked."""
            one = model.mixer_of(layer).state(model, batch, cache_len)
            return jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), one)

        first = tuple(states(layer, 1) for layer in model.first_layers)
        layers = tuple(states(layer, model.periods) for layer in model.pattern)
        return Cache(jnp.zeros(batch, jnp.int32), {"first": first, "layers": layers})

    def prefill(self, params: Params, batch: Batch, cache_len: int) -> tuple[Float[Array, "B V"], Cache]:
        B, T = batch.tokens.shape
        if cache_len < T:
            raise ConfigError(f"prompts of {T} tokens do not fit a cache of {cache_len}")
        lengths_B = (
            jnp.full(B, T, jnp.int32) if batch.segments is None else (batch.segments > 0).sum(1, dtype=jnp.int32)
        )
        cache = self.empty_cache(B, cache_len)
        hidden_BTD, states = self._cached(params, batch, jnp.arange(T)[None], cache.states, None)
        last_BD = jnp.take_along_axis(hidden_BTD, jnp.maximum(lengths_B - 1, 0)[:, None, None], axis=1)[:, 0]
        return self.unembed(params, last_BD), Cache(lengths_B, states)

    def step(self, params: Params, tokens: Int[Array, " B"], cache: Cache) -> tuple[Float[Array, "B V"], Cache]:
        lengths_B = cache.lengths_B
        one_each = Batch(tokens=tokens[:, None])
        hidden_BTD, states = self._cached(params, one_each, lengths_B[:, None], cache.states, lengths_B)
        return self.unembed(params, hidden_BTD[:, 0]), Cache(lengths_B + 1, states)

    def _cached(
        self, params: Params, batch: Batch, positions_BT: Array, states: Any, offset_B: Array | None
    ) -> tuple[Array, Any]:
        """A pass that reads and writes the cache. Slots after a row's length hold padding, which causality hides
        until a later token overwrites it; a state of fixed size never takes padding in.
        """
        angles, bias = self._positions(positions_BT)
        context = Context(self.knobs(), angles, Causal(), bias, batch.segments, offset=offset_B)
        return self._run(params, batch.tokens, positions_BT, context, states)[0]

    def _run(
        self, params: Params, tokens_BT: Array, positions_BT: Array, context: Context, states: Any = None
    ) -> tuple[tuple[Array, Any], dict[str, Any]]:
        with jax.default_matmul_precision(self.config.matmul_precision):
            out, variables = self.module.apply(
                {"params": params}, tokens_BT, positions_BT, context, states, mutable=["captured"]
            )
        return out, variables.get("captured", {})  # type: ignore[return-value]

    def _positions(self, positions_BT: Array) -> tuple[Any, Any]:
        model = self.config
        angles = model.position.angles(positions_BT, model.head_dim)
        return angles, model.position.bias(model.attention.num_heads)

    def _mask(self, batch: Batch) -> Mask | None:
        mask = Causal() if self.config.causal else None
        if batch.segments is None:
            return mask
        own = SameSegment(jnp.asarray(batch.segments))
        return own if mask is None else mask & own


@lru_cache(maxsize=64)
def declared(config: ModelConfig) -> Any:
    """The specs of a decoder; kept, since a study asks for those of one structure again and again."""

    def init(tokens_BT: Array) -> Any:
        module = DecoderModule(config)
        return module.init(jax.random.key(0), tokens_BT, tokens_BT, Context(Decoder(config).knobs()))

    return jax.eval_shape(init, jax.ShapeDtypeStruct((1, 1), jnp.int32))["params"]
