"""A Transformer, or whatever its layers are: embedding, positions, a stack of layers, a final norm, a head. Alone it is
a decoder, or with causal=false an encoder; with model.encoder it is a decoder over an encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from txjax.nn.context import KEPT, Context, Knobs, Rotation, constrain, sow
from txjax.nn.linear import Linear, Table
from txjax.nn.norm import Norm
from txjax.nn.parameters import initialise, is_spec, path_name
from txjax.nn.stack import stack
from txjax.ops.masks import Causal, Mask, Padding, Prefix, SameSegment
from txjax.schema import ConfigError


class Cache(NamedTuple):
    """lengths_B: tokens cached in each row. states: of the layers. memory_BS: which of the encoder's states are real,
    or None where there is no encoder.
    """

    lengths_B: Array
    states: Any
    memory_BS: Array | None = None


class DecoderModule(nn.Module):
    """From a batch to hidden states; declares every parameter of the decoder, and of an encoder under it."""

    model: ModelConfig

    @nn.compact
    def __call__(
        self,
        batch: Batch,
        positions_BT: Int[Array, "#B T"],
        context: Context,
        states: Any = None,
        table_VE: Float[Array, "V E"] | None = None,
    ) -> tuple[Float[Array, "B T D"], Any]:
        """table_VE: of embeddings that are shared with another stack, or None."""
        model = self.model
        x_BTE, table_VE = model.embedding.module(model, "embedding")(batch, table_VE)
        heads = model.attention.num_heads
        tables = {
            name: Table(model, shape, axes, leaf=name, name="position")()
            for name, (shape, axes) in model.position.tables(
                context=model.context + model.embedding.added, width=model.embedding_width, num_heads=heads
            ).items()
        }
        x_BTE = model.position.embed(x_BTE, positions_BT, tables)
        if model.embedding_norm:
            x_BTE = Norm(model.norm, name="embedding_norm")(x_BTE, context)
        if "embedding" in model.dropout_sites:
            x_BTE = context.drop(x_BTE, "embedding", 0)
        x_BTD = constrain(self.projected(x_BTE), "batch", "length", "embed")
        sow(self, context, "embedded", x_BTD)
        if model.encoder is not None and batch.source is not None:
            context, starts = self.encoded(batch, context, table_VE)
            if starts is not None:
                B, S = batch.source.shape
                states = Decoder(model).empty_cache(B, 0, S).states if states is None else states
                states = bridged(states, starts)
        context = replace(
            context,
            rotations=tuple(
                Rotation(scheme, width, scheme.angles(positions_BT, width)) for scheme, width in model.rotations
            ),
            bias=model.position.bias(heads, tables, causal=model.causal),
        )
        x_BTD, states = stack(model, x_BTD, context, states)
        if model.norm_placement != "post":  # a post-norm stack has normalised its stream already
            x_BTD = Norm(model.norm, name="final_norm")(x_BTD, context)
        hidden_BTD = model.head.read(model, x_BTD, batch, context)
        if self.is_initializing():  # declared here, used by Decoder.unembed
            model.head.module(model, "head")(hidden_BTD, table_VE)
        return hidden_BTD, states

    def projected(self, x_BTE: Float[Array, "B T E"]) -> Float[Array, "B T D"]:
        """The embedding's vectors in the model's width."""
        if self.model.embedding.own_width is None:
            return x_BTE
        shape = (self.model.embedding_width, self.model.width)
        return Linear(self.model, shape, ("rank", "embed"), bias=True, name="embedding_projection")(x_BTE)

    def encoded(self, batch: Batch, context: Context, table_VE: Array | None) -> tuple[Context, Any]:
        """The context with what the encoder's last layer says of each token; and the states that its layers ended in,
        where the decoder's start from them, or None.
        """
        encoder = self.model.encoder_model
        source = Batch(tokens=batch.source, segments=batch.source_segments)
        own = Context(
            context.knobs.of_encoder,
            mask=mask_of(encoder, source),
            segments=source.segments,
            key=None if context.key is None else jax.random.fold_in(context.key, ENCODER),
            train=context.train,
            capture=context.capture,
        )
        positions = jnp.arange(batch.source.shape[1])[None]
        shared = table_VE if self.model.encoder.embedding == "shared" else None  # type: ignore[union-attr]
        bridge = self.model.encoder.bridge == "states"  # type: ignore[union-attr]
        empty = Decoder(encoder).empty_cache(batch.source.shape[0], 0).states if bridge else None
        memory_BSD, ends = DecoderModule(encoder, name="encoder")(source, positions, own, empty, shared)
        return replace(context, memory=memory_BSD, memory_mask=memory_mask(batch.source_segments)), ends


def counting(batch: Batch, added: int) -> tuple[Batch, int]:
    """The batch with positions and segments of the vectors too that the embedding puts before each row; the length."""
    T = batch.tokens.shape[1] + added
    if added == 0:
        return batch, T
    positions, segments = batch.positions, batch.segments
    if positions is not None:
        first = jnp.broadcast_to(jnp.arange(added), (positions.shape[0], added))
        positions = jnp.concatenate([first, positions + added], axis=1)
    if segments is not None:
        segments = jnp.concatenate([segments[:, :1]] * added + [segments], axis=1)
    return replace(batch, positions=positions, segments=segments), T


def bridged(states: Any, starts: Any) -> Any:
    """The states of a decoder's layers, with the encoder's in the place of its mixers' own."""
    return {
        part: tuple(own | {"mixer": start["mixer"]} for own, start in zip(states[part], starts[part], strict=True))
        for part in states
    }


ENCODER = 0x656E63  # folded into the key of dropout: the layers of both stacks have the same numbers


def mask_of(model: ModelConfig, batch: Batch) -> Mask | None:
    """Who may see whom in a pass over whole sequences."""
    mask = Causal() if model.causal else None
    if batch.prefix is not None and mask is not None:
        mask = mask | Prefix(jnp.asarray(batch.prefix))
    if batch.segments is None:
        return mask
    own = SameSegment(jnp.asarray(batch.segments))
    return own if mask is None else mask & own


def memory_mask(source_segments: Array | None) -> Mask | None:
    return None if source_segments is None else Padding(jnp.asarray(source_segments) > 0)


@dataclass(frozen=True)
class Decoder:
    """The contract of txjax.models.Model for a decoder, an encoder, or a decoder over an encoder."""

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
        check_length(batch.tokens.shape[1], self.config.max_length, "a sequence")
        self._check_source(batch)
        batch, T = counting(batch, self.config.embedding.added)
        positions_BT = jnp.arange(T)[None] if batch.positions is None else batch.positions
        context = Context(
            knobs=knobs or self.knobs(),
            mask=mask_of(self.config, batch),
            segments=batch.segments,
            key=key if self.config.dropout > 0 else None,
            train=key is not None,
            capture=capture,
        )
        (hidden_BTD, _), kept = self._run(params, batch, positions_BT, context)
        logits = self.unembed(params, hidden_BTD) if unembed else None
        return Outputs(
            hidden_BTD,
            logits,
            aux=by_leaf(kept["losses"], jnp.sum),
            captured=kept["captured"],
            figures=by_leaf(kept["figures"], jnp.mean),
            updates=of_shared(self.config, kept["updates"]),
        )

    def unembed(self, params: Params, hidden: Float[Array, "... D"]) -> Float[Array, "... V"]:
        model = self.config
        table_VE = params["embedding"]["w"] if model.head.tied else None
        with jax.default_matmul_precision(model.matmul_precision):
            head = model.head.module(model, "head")
            logits = head.apply({"params": params.get("head", {})}, hidden, table_VE).astype(jnp.float32)
        cap = self.config.logit_softcap
        return logits if cap is None else cap * jnp.tanh(logits / cap)

    def inputs(self, rows: int, length: int) -> Batch:
        tokens = self.config.embedding.tokens(rows, length)
        labels = jax.ShapeDtypeStruct((rows,), jnp.int32) if self.config.head.labelled else None
        return Batch(tokens=tokens, source=None if self.config.encoder is None else tokens, labels=labels)

    def empty_cache(self, batch: int, cache_len: int, source_len: int = 0) -> Cache:
        """A cache of no tokens with room for cache_len in each of `batch` rows, and for source_len of the encoder's
        states.
        """
        check_length(cache_len, self.config.max_length, "a cache")
        model = self.config

        def states(layer: Layer, count: int) -> Any:
            """Those of `count` layers, stacked."""
            one = {"mixer": model.mixer_of(layer).state(model, batch, cache_len)}
            if model.encoder is not None:
                one["cross"] = model.cross_of(layer).state(model, batch, source_len)
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
        self._check_source(batch)
        cache = self.empty_cache(B, cache_len, 0 if batch.source is None else batch.source.shape[1])
        hidden_BTD, states = self._cached(params, batch, jnp.arange(T)[None], cache.states, None)
        last_BD = jnp.take_along_axis(hidden_BTD, jnp.maximum(lengths_B - 1, 0)[:, None, None], axis=1)[:, 0]
        memory_BS = None
        if batch.source is not None:
            real = jnp.ones(batch.source.shape, bool) if batch.source_segments is None else batch.source_segments > 0
            memory_BS = jnp.asarray(real)
        return self.unembed(params, last_BD), Cache(lengths_B, states, memory_BS)

    def step(self, params: Params, tokens: Int[Array, " B"], cache: Cache) -> tuple[Float[Array, "B V"], Cache]:
        lengths_B = cache.lengths_B
        one_each = Batch(tokens=tokens[:, None])
        hidden_BTD, states = self._cached(
            params, one_each, lengths_B[:, None], cache.states, lengths_B, cache.memory_BS
        )
        return self.unembed(params, hidden_BTD[:, 0]), cache._replace(lengths_B=lengths_B + 1, states=states)

    def rows(self, cache: Cache, rows_B: Int[Array, " C"]) -> Cache:
        states = jax.tree.map(lambda x: x[:, rows_B], cache.states)  # layers first
        memory_BS = None if cache.memory_BS is None else cache.memory_BS[rows_B]
        return Cache(cache.lengths_B[rows_B], states, memory_BS)

    def _cached(
        self,
        params: Params,
        batch: Batch,
        positions_BT: Array,
        states: Any,
        offset_B: Array | None,
        memory_BS: Array | None = None,
    ) -> tuple[Array, Any]:
        """A pass that reads and writes the cache. Slots after a row's length hold padding, which causality hides
        until a later token overwrites it; a state of fixed size never takes padding in.
        """
        if not self.config.generates:
            raise ConfigError(f"a model with causal={self.config.causal}, head={self.config.head.kind} writes no text")
        mask: Mask = Causal() if batch.prefix is None else Causal() | Prefix(jnp.asarray(batch.prefix))
        context = Context(
            self.knobs(),
            mask=mask,
            segments=batch.segments,
            offset=offset_B,
            memory_mask=None if memory_BS is None else Padding(memory_BS),
        )
        return self._run(params, batch, positions_BT, context, states)[0]

    def _run(
        self, params: Params, batch: Batch, positions_BT: Array, context: Context, states: Any = None
    ) -> tuple[tuple[Array, Any], dict[str, Any]]:
        with jax.default_matmul_precision(self.config.matmul_precision):
            out, kept = self.module.apply({"params": params}, batch, positions_BT, context, states, mutable=list(KEPT))
        return out, {name: kept.get(name, {}) for name in KEPT}  # type: ignore[return-value]

    def _check_source(self, batch: Batch) -> None:
        """An encoder wants a source, and nothing else can read one."""
        if (self.config.encoder is None) != (batch.source is None):
            wanted = "no batch.source" if self.config.encoder is None else "batch.source, what its encoder reads"
            raise ConfigError(f"a model with encoder={'none' if self.config.encoder is None else 'set'} needs {wanted}")
        if batch.source is not None:
            check_length(batch.source.shape[1], self.config.max_length, "a source")


def of_shared(config: ModelConfig, updates: Any) -> Any:
    """Updates as the parameters lie: of one that periods share, the mean over what each of them says."""

    def mean(path: tuple[Any, ...], leaf: Array) -> Array:
        return leaf.mean(0) if "layers" in path_name(path).split("/") else leaf

    return updates if config.sharing == "none" else jax.tree_util.tree_map_with_path(mean, updates)


def by_leaf(tree: Any, reduce: Callable[[Array], Array]) -> dict[str, Array]:
    """The leaves of one name, of all layers, reduced to a number."""
    found: dict[str, list[Array]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        found.setdefault(path_name(path).rpartition("/")[2], []).append(jnp.ravel(leaf))
    return {name: reduce(jnp.concatenate(leaves)) for name, leaves in found.items()}


@lru_cache(maxsize=64)
def declared(config: ModelConfig) -> Any:
    """The specs of a decoder; kept, since a study asks for those of one structure again and again."""

    def init(batch: Batch) -> Any:
        positions = jnp.zeros((1, 1), jnp.int32)
        return DecoderModule(config).init(jax.random.key(0), batch, positions, Context(Decoder(config).knobs()))

    return jax.eval_shape(init, Decoder(config).inputs(1, 1))["params"]
