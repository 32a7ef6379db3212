"""What the model is: widths, heads, positions, norms, and the pattern of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from txjax.config.parts import Cross, Embedding, FeedForward, Head, Initialisation, Mixer
from txjax.ops.norms import LayerNorm, Norm
from txjax.ops.positions import Learned, Position
from txjax.schema import ConfigError, Former, Kind, Section, require


def _default(family: type[Kind], kind: str) -> Any:
    return field(default_factory=lambda: family.members()[kind]())


@dataclass(frozen=True)
class Attention(Section):
    """Softmax attention, as every attention layer of the model has it.

    scale: multiplies the scores: rsqrt is 1/sqrt(head_dim), none is 1, or a number; folded is 1, with the factor in
        the initial weights of the queries instead (Raffel et al. 2020).
    num_kv_heads: key/value heads, each shared by num_heads / num_kv_heads query heads; none: as many as heads.
    head_dim: width of a head; none: width / num_heads.
    qk_norm: the model's norm on the queries and keys of self-attention, before they are rotated: of each head by itself
        (Dehghani et al. 2023; Qwen3), or of all heads together (Team OLMo 2024, OLMo 2).
    sinks: a learned score for each head of self-attention, in the softmax beside those of the keys, without a value.
    implementation: plain is the reference; recomputed keeps no weights for the backward pass and skips what
        causality hides; xla and cudnn are jax.nn.dot_product_attention's; blockwise needs memory linear in the length.
    block_size: keys (and queries) that blockwise holds at once.
    """

    num_heads: int = 4
    num_kv_heads: int | None = None
    head_dim: int | None = None
    scale: Literal["rsqrt", "none", "folded"] | float = "rsqrt"
    softcap: float | None = None
    qk_norm: Literal["none", "head", "all"] = "none"
    sinks: bool = False
    qkv_bias: bool = True
    output_bias: bool = True
    implementation: Literal["plain", "recomputed", "xla", "cudnn", "blockwise"] = "recomputed"
    block_size: int = 128

    former: ClassVar[Former] = {"qk_norm": ((False, "none"), (True, "head"))}

    def check(self) -> None:
        require(self.num_heads > 0, f"num_heads must be at least 1, got {self.num_heads}")
        require(self.block_size > 0, f"block_size must be at least 1, got {self.block_size}")
        require(self.head_dim is None or self.head_dim > 0, f"head_dim must be at least 1, got {self.head_dim}")
        require(self.softcap is None or self.softcap > 0, f"softcap must be positive or none, got {self.softcap}")
        kv = self.num_kv_heads
        if kv is not None and (kv < 1 or self.num_heads % kv):
            options = [n for n in range(1, self.num_heads + 1) if self.num_heads % n == 0]
            raise ConfigError(f"num_kv_heads must divide num_heads={self.num_heads}, got {kv}: one of {options}")


@dataclass(frozen=True)
class Layer(Section):
    """One layer of the pattern. What is left out is the model's own; the kind "none" leaves the sublayer out. cross:
    in a decoder over an encoder alone. mixer_norm: of the mixer, where the feed-forward keeps model.norm: none after an
    embedding_norm, say (Warner et al. 2024).
    """

    mixer: Mixer | None = None
    cross: Cross | None = None
    feedforward: FeedForward | None = None
    mixer_norm: Norm | None = None


@dataclass(frozen=True)
class Encoder(Section):
    """The stack that reads `batch.source`, whose last states the decoder's layers read; what is not said here is the
    model's own.

    embedding: shared with the decoder, or its own.
    vocab_size: rows of its own embedding; none: as many as the tokenizer of the source has ids, or the
        model's where one tokenizer reads both sides.
    causal: a token sees those before it alone, as recurrent layers do.
    bridge: states: each recurrent layer of the decoder starts from the last state of the encoder's layer of its number
        (Sutskever et al. 2014).
    """

    num_layers: int = 4
    pattern: tuple[Layer, ...] = (Layer(),)
    first_layers: tuple[Layer, ...] = ()
    embedding: Literal["shared", "own"] = "shared"
    vocab_size: int | None = None
    causal: bool = False
    bridge: Literal["none", "states"] = "none"

    def check(self) -> None:
        require(
            self.vocab_size is None or self.embedding == "own",
            f"vocab_size={self.vocab_size} is that of an embedding of its own: set embedding=own, or leave vocab_size "
            "out",
        )


@dataclass(frozen=True)
class Model(Section):
    """A stack of layers between an embedding and a head; with an encoder, the decoder over it.

    vocab_size: rows of the embedding; none: the tokenizer's.
    context: the longest sequence that the model is made for; rows of a learned position table.
    causal: a token sees those before it alone. An encoder's tokens see all.
    cross: how a decoder's layers read the encoder.
    pattern: the layers of one period; the stack repeats it num_layers / len(pattern) times.
    first_layers: layers before the first period (a dense layer before mixtures, say), part of num_layers.
    sharing: periods: all periods have the parameters of one (Lan et al. 2020, section 3.1; Dehghani et al. 2019).
    embedding_norm: a norm on embedding and position, before the first layer.
    norm_placement: pre x+f(n(x)), post n(x+f(x)), sandwich x+n(f(n(x))), output x+n(f(x)).
    topology: sequential, or parallel: mixer and feed-forward both read the layer's input.
    residual: on x+f, off f, or a number a: x+a f.
    dropout, dropout_sites: one rate, and where it applies; head: on the vector that a classifier reads.
    dtype: of the computation; parameters, softmax, norms, angles and the loss are float32 whatever it is.
    matmul_precision: of float32 products on accelerators, whose default is faster and coarser than float32.
    remat: what the backward pass computes again: none, full (all of a layer), dots (all but matrix products).
    unroll: layers of the scan that are laid out in the program, or all; values do not depend on it. Decoding a single
        text lays out two at least.
    """

    width: int = 128
    num_layers: int = 4
    vocab_size: int | None = None
    context: int = 128
    causal: bool = True
    encoder: Encoder | None = None
    embedding: Embedding = _default(Embedding, "tokens")
    embedding_norm: bool = False
    attention: Attention = field(default_factory=Attention)
    mixer: Mixer = _default(Mixer, "attention")
    cross: Cross = _default(Cross, "attention")
    feedforward: FeedForward = _default(FeedForward, "dense")
    pattern: tuple[Layer, ...] = (Layer(),)
    first_layers: tuple[Layer, ...] = ()
    sharing: Literal["none", "periods"] = "none"
    position: Position = field(default_factory=Learned)
    norm: Norm = field(default_factory=LayerNorm)
    norm_placement: Literal["pre", "post", "sandwich", "output"] = "pre"
    topology: Literal["sequential", "parallel"] = "sequential"
    residual: Literal["on", "off"] | float = "on"
    head: Head = _default(Head, "tied")
    logit_softcap: float | None = None
    dropout: float = 0.0
    dropout_sites: tuple[Literal["embedding", "attention", "residual", "head"], ...] = (
        "embedding",
        "attention",
        "residual",
    )
    init: Initialisation = _default(Initialisation, "normal")
    dtype: Literal["float32", "bfloat16"] = "float32"
    matmul_precision: Literal["default", "high", "highest"] = "default"
    remat: Literal["none", "full", "dots"] = "dots"
    unroll: Literal["all"] | int = 1

    def check(self) -> None:
        for name in ("width", "num_layers", "context"):
            require(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")
        require(self.vocab_size is None or self.vocab_size > 0, f"vocab_size must be positive, got {self.vocab_size}")
        require(0.0 <= self.dropout < 1.0, f"dropout must be in [0, 1), got {self.dropout}")
        require(bool(self.pattern), "pattern must have at least one layer, got ()")
        require(self.unroll == "all" or self.unroll > 0, f"unroll must be all or at least 1, got {self.unroll}")
        repeated = self.num_layers - len(self.first_layers)
        if repeated < 0 or repeated % len(self.pattern):
            raise ConfigError(
                f"num_layers must be {len(self.first_layers)} first layers and a multiple of the pattern's "
                f"{len(self.pattern)}, got {self.num_layers}"
            )
        for layer in self.layers:
            self.mixer_of(layer).validate(self)
            self.feedforward_of(layer).validate(self)
            if self.encoder is not None:
                self.cross_of(layer).validate(self)
        self.embedding.validate(self)
        self.head.validate(self)
        if self.encoder is not None:
            try:
                self.encoder_model.check()
            except ConfigError as error:
                raise ConfigError(f"encoder: {error}") from None
            self._check_bridge()
        heads = self.attention.num_heads
        self.position.validate(head_dim=self.head_dim, width=self.embedding_width, num_heads=heads)

    def _check_bridge(self) -> None:
        """A state goes from a layer to the one of its number: both have to keep the same."""
        assert self.encoder is not None
        if self.encoder.bridge == "states":
            other = self.encoder_model
            mixers = [[model.mixer_of(layer) for layer in model.layers] for model in (self, other)]
            require(
                (len(self.first_layers), len(self.pattern)) == (len(other.first_layers), len(other.pattern))
                and mixers[0] == mixers[1]
                and not any(mixer.grows for mixer in mixers[0]),
                "encoder.bridge=states needs the same recurrent layers in encoder and decoder: make encoder.num_layers "
                "and its pattern those of the model, and choose a mixer such as gru or lstm",
            )

    @property
    def encoder_model(self) -> Model:
        """The encoder as a model."""
        assert self.encoder is not None
        own = self.encoder
        return replace(
            self,
            encoder=None,
            num_layers=own.num_layers,
            vocab_size=self.vocab_size if own.vocab_size is None else own.vocab_size,
            pattern=own.pattern,
            first_layers=own.first_layers,
            causal=own.causal,
            head=Head.members()["none"](),
        )

    @property
    def structure(self) -> Model:
        """The model without what is traced, or known from a batch: equal where program and parameter tree are."""
        scale = "folded" if self.attention.scale == "folded" else "rsqrt"  # another law of the initial weights
        dropout = 0.5 if self.dropout > 0 else 0.0
        context = self.context if self.position.bounded else 1
        return replace(self, attention=replace(self.attention, scale=scale), dropout=dropout, context=context)

    @property
    def head_dim(self) -> int:
        return self.attention.head_dim or self.width // self.attention.num_heads

    @property
    def num_kv_heads(self) -> int:
        return self.attention.num_kv_heads or self.attention.num_heads

    @property
    def embedding_width(self) -> int:
        """Width of the embedding's vectors, and of what is done to them before they are projected to the model's:
        positions are added, and embedding_norm is taken.
        """
        return self.embedding.own_width or self.width

    @property
    def periods(self) -> int:
        """How often the pattern is repeated."""
        return (self.num_layers - len(self.first_layers)) // len(self.pattern)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All num_layers layers, in order."""
        return self.first_layers + self.pattern * self.periods

    @property
    def distinct_layers(self) -> tuple[Layer, ...]:
        """The layers that have parameters of their own, in order."""
        return self.first_layers + self.pattern if self.sharing == "periods" else self.layers

    @property
    def rotations(self) -> tuple[tuple[Position, int], ...]:
        """The different ones among those of the layers' mixers (Mixer.rotates)."""
        found = (self.mixer_of(layer).rotates(self) for layer in self.layers)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    @property
    def max_length(self) -> int | None:
        """The longest sequence the model can take, or None: only a learned table has an end."""
        return self.context if self.position.bounded else None

    @property
    def generates(self) -> bool:
        """Whether it can write text: each token follows from those before it alone."""
        return self.causal and self.head.generates

    @property
    def memory(self) -> int | None:
        """How many tokens generation holds at once, or None: as many as there are, where no state grows with them and
        positions do not end.
        """
        grows = any(self.mixer_of(layer).grows for layer in self.layers)
        return self.context if grows or self.position.bounded else None

    @property
    def vocab(self) -> int:
        """vocab_size, once a tokenizer or a preset has said it."""
        require(self.vocab_size is not None, "model.vocab_size is none: set it, or let data.tokenizer say it")
        return self.vocab_size  # type: ignore[return-value]

    def mixer_of(self, layer: Layer) -> Mixer:
        return layer.mixer or self.mixer

    def cross_of(self, layer: Layer) -> Cross:
        return layer.cross or self.cross

    def feedforward_of(self, layer: Layer) -> FeedForward:
        return layer.feedforward or self.feedforward
