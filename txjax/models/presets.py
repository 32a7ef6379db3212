"""Model configs with the sizes that have names: the only place of them.

A family's function takes the sizes and any field of Model; `named("gpt2-medium")` gives a published size. Counts of
parameters are asserted in tests/models/test_presets.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from txjax.config import Attention, Encoder, Layer, Mixer, Model
from txjax.nn.cross.alignment import Alignment
from txjax.nn.embeddings.patches import Patches
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.feedforwards.mixture import Mixture
from txjax.nn.feedforwards.none import NoFeedForward
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.tied import Tied
from txjax.nn.initialisations import FanIn, Normal
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.latent import Latent
from txjax.nn.mixers.lstm import LSTM
from txjax.nn.mixers.min_gru import MinGRU
from txjax.nn.mixers.rnn import RNN
from txjax.ops.norms import LayerNorm, NoNorm, RMSNorm
from txjax.ops.positions import Learned, Llama3Scaling, NoPosition, Relative, Rope, Sinusoidal, YarnScaling
from txjax.schema import ConfigError, nearest


def gpt1(width: int = 768, num_layers: int = 12, num_heads: int = 12, *, context: int = 512, **more: Any) -> Model:
    """GPT-1: post-norm without a final norm, learned positions, GELU. Radford et al. 2018."""
    return gpt2(
        width,
        num_layers,
        num_heads,
        context=context,
        **{"norm_placement": "post", "init": Normal(scale_residual=False)} | more,
    )


def gpt2(
    width: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    *,
    context: int = 1024,
    bias: bool = True,
    **more: Any,
) -> Model:
    """GPT-2: pre-norm, learned positions, GELU (tanh), tied head, residual outputs scaled. Radford et al. 2019.

    bias: of every linear map and norm; nanoGPT's small recipes leave them out.
    """
    fields: dict[str, Any] = {
        "attention": Attention(num_heads=num_heads, qkv_bias=bias, output_bias=bias),
        "feedforward": Dense(hidden=4 * width, activation="gelu_tanh", bias=bias),
        "norm": LayerNorm(bias=bias),
        "position": Learned(),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def gpt3(width: int, num_layers: int, num_heads: int, *, context: int = 2048, **more: Any) -> Model:
    """GPT-3: GPT-2 with a longer context. Brown et al. 2020, table 2.1.

    Every layer attends to all tokens here; the paper alternates with locally banded layers whose band it does not
    give. Two rows of the table do not multiply out, and follow from the heads here: 13B is 40 x 128 = 5120 wide, and
    XL has 16 heads of 128.
    """
    return gpt2(width, num_layers, num_heads, context=context, **more)


def llama(
    width: int = 4096,
    num_layers: int = 32,
    num_heads: int = 32,
    *,
    hidden: int = 11008,
    num_kv_heads: int | None = None,
    context: int = 2048,
    theta: float = 10_000.0,
    eps: float = 1e-5,
    **more: Any,
) -> Model:
    """Llama: pre-norm RMSNorm, rotary positions, SwiGLU, no biases, a head of its own. Touvron et al. 2023."""
    fields: dict[str, Any] = {
        "attention": Attention(num_heads=num_heads, num_kv_heads=num_kv_heads, qkv_bias=False, output_bias=False),
        "feedforward": Dense(hidden=hidden, activation="swiglu", bias=False),
        "norm": RMSNorm(eps=eps),
        "position": Rope(theta=theta),
        "head": LinearHead(),
        "init": Normal(scale_residual=False),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def bert(width: int = 768, num_layers: int = 12, num_heads: int = 12, *, context: int = 512, **more: Any) -> Model:
    """BERT: a post-norm encoder, learned positions, two token types, a norm on their sum, GELU, and the heads that it
    is trained with. Devlin et al. 2019.
    """
    fields: dict[str, Any] = {
        "causal": False,
        "embedding": Tokens(types=2),
        "embedding_norm": True,
        "attention": Attention(num_heads=num_heads),
        "feedforward": Dense(hidden=4 * width, activation="gelu"),
        "norm": LayerNorm(eps=1e-12),
        "norm_placement": "post",
        "head": Masked(next_sentence="on"),
        "dropout_sites": ("embedding", "attention", "residual", "head"),
        "init": Normal(scale_residual=False),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def roberta(width: int = 768, num_layers: int = 12, num_heads: int = 12, **more: Any) -> Model:
    """RoBERTa: BERT without a next sentence and with one token type. Liu et al. 2019."""
    fields: dict[str, Any] = {
        "embedding": Tokens(types=1),
        "norm": LayerNorm(),
        "position": Learned(offset=2),
        "head": Masked(),
    }
    return bert(width, num_layers, num_heads, **fields | more)


def vit(
    width: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    *,
    patches: int = 196,
    side: int = 16,
    channels: int = 3,
    classes: int = 1000,
    **more: Any,
) -> Model:
    """ViT: a pre-norm encoder of the patches of an image behind a class token, learned positions, GELU.
    Dosovitskiy et al. 2021.

    patches: of an image. side, channels: pixels a side of a patch, and numbers in a pixel.
    """
    fields: dict[str, Any] = {
        "causal": False,
        "embedding": Patches(side=side, channels=channels, class_token=True),
        "attention": Attention(num_heads=num_heads),
        "feedforward": Dense(hidden=4 * width, activation="gelu"),
        "norm": LayerNorm(eps=1e-12),
        "head": Classes(classes),
        "init": Normal(scale_residual=False),
    }
    return Model(width=width, num_layers=num_layers, context=patches, **fields | more)


def transformer(
    width: int = 512, num_layers: int = 6, num_heads: int = 8, *, hidden: int = 2048, context: int = 512, **more: Any
) -> Model:
    """The original Transformer: encoder and decoder, post-norm, sinusoids, embeddings times sqrt(D) that both sides and
    the head share, ReLU, biases in the feed-forward alone. Vaswani et al. 2017.
    """
    fields: dict[str, Any] = {
        "encoder": Encoder(num_layers),
        "embedding": Tokens(scale="sqrt_width"),
        "attention": Attention(num_heads=num_heads, qkv_bias=False, output_bias=False),
        "feedforward": Dense(hidden=hidden, activation="relu"),
        "norm_placement": "post",
        "position": Sinusoidal(),
        "init": FanIn(),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def t5(
    width: int = 512,
    num_layers: int = 6,
    num_heads: int = 8,
    *,
    hidden: int = 2048,
    head_dim: int = 64,
    context: int = 512,
    **more: Any,
) -> Model:
    """T5: encoder and decoder, pre-norm RMSNorm, relative positions by buckets, no 1/sqrt(head_dim) but in the initial
    queries, ReLU, no biases, a head that is the embedding and divides by sqrt(D). Raffel et al. 2020.
    """
    fields: dict[str, Any] = {
        "encoder": Encoder(num_layers),
        "attention": Attention(
            num_heads=num_heads, head_dim=head_dim, scale="folded", qkv_bias=False, output_bias=False
        ),
        "feedforward": Dense(hidden=hidden, activation="relu", bias=False),
        "norm": RMSNorm(eps=1e-6),
        "position": Relative(),
        "head": Tied(scale="rsqrt_width"),
        "init": FanIn(embedding_std=1.0),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def t5_v1_1(width: int = 512, num_layers: int = 8, num_heads: int = 6, *, hidden: int = 1024, **more: Any) -> Model:
    """T5 version 1.1: gated GELU, and a head of its own. Shazeer 2020; Raffel et al.'s released models."""
    fields: dict[str, Any] = {
        "feedforward": Dense(hidden=hidden, activation="geglu_tanh", bias=False),
        "head": LinearHead(),
    }
    return t5(width, num_layers, num_heads, **fields | more)


def switch(
    width: int = 768,
    num_layers: int = 12,
    num_heads: int = 12,
    *,
    hidden: int = 3072,
    num_experts: int = 8,
    **more: Any,
) -> Model:
    """Switch Transformer: T5 with a mixture in every other layer, one expert a token, a capacity and a balancing loss.
    Fedus et al. 2021.
    """
    mixture = Mixture(
        num_experts, 1, hidden, "relu", bias=False, renormalise=False, dispatch="capacity", capacity_factor=1.25
    )
    pattern = (Layer(), Layer(feedforward=mixture))
    fields = {"encoder": Encoder(num_layers, pattern=pattern), "pattern": pattern}
    return t5(width, num_layers, num_heads, hidden=hidden, **fields | more)


def bart(width: int = 768, num_layers: int = 6, num_heads: int = 12, *, context: int = 1024, **more: Any) -> Model:
    """BART: encoder and decoder, post-norm, learned positions of each and a norm on the embeddings, GELU, embeddings
    shared by both sides and the head, which has a bias. Lewis et al. 2020.
    """
    fields: dict[str, Any] = {
        "encoder": Encoder(num_layers),
        "embedding_norm": True,
        "attention": Attention(num_heads=num_heads),
        "feedforward": Dense(hidden=4 * width, activation="gelu"),
        "norm_placement": "post",
        "position": Learned(offset=2),
        "head": Tied(bias=True),
        "init": Normal(scale_residual=False),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def mixtral(
    width: int = 4096,
    num_layers: int = 32,
    num_heads: int = 32,
    *,
    hidden: int = 14336,
    num_experts: int = 8,
    top_k: int = 2,
    num_kv_heads: int | None = 8,
    **more: Any,
) -> Model:
    """Mixtral: Llama with a mixture in each layer, weights by a softmax over the chosen experts. Jiang et al. 2024."""
    mixture = Mixture(num_experts, top_k, hidden, "swiglu", bias=False, gate="softmax_chosen", balance=0.02)
    fields: dict[str, Any] = {"feedforward": mixture}
    return llama(width, num_layers, num_heads, num_kv_heads=num_kv_heads, **fields | more)


def deepseek_moe(
    width: int = 2048,
    num_layers: int = 28,
    num_heads: int = 16,
    *,
    hidden: int = 10944,
    expert_hidden: int = 1408,
    num_experts: int = 64,
    top_k: int = 6,
    num_shared: int = 2,
    **more: Any,
) -> Model:
    """DeepSeekMoE: Llama with many narrow experts, shared ones beside them, and a dense first layer. Dai et al. 2024.

    hidden: of the dense layer.
    """
    fields: dict[str, Any] = {
        "first_layers": (Layer(feedforward=Dense(hidden=hidden, activation="swiglu", bias=False)),),
        "feedforward": Mixture(
            num_experts, top_k, expert_hidden, "swiglu", bias=False,
            num_shared=num_shared, renormalise=False, balance=0.001,
        ),
        "eps": 1e-6,
    }  # fmt: skip
    return llama(width, num_layers, num_heads, **fields | more)


def deepseek_v3(
    width: int = 7168,
    num_layers: int = 61,
    num_heads: int = 128,
    *,
    hidden: int = 18432,
    expert_hidden: int = 2048,
    num_experts: int = 256,
    q_rank: int | None = 1536,
    kv_rank: int = 512,
    context: int = 4096,
    **more: Any,
) -> Model:
    """DeepSeek-V3 without its layer for the token after the next: latent attention, three dense layers, then mixtures
    of 256 experts in 8 groups and a shared one, sigmoid gates, balanced by a bias. DeepSeek-AI 2024 (V3), section 4.2.

    hidden: of the dense layers.
    """
    dense = Dense(hidden=hidden, activation="swiglu", bias=False)
    fields: dict[str, Any] = {
        "mixer": Latent(q_rank=q_rank, kv_rank=kv_rank, rope_dim=64, value_dim=128),
        "attention": Attention(num_heads=num_heads, head_dim=128 + 64, qkv_bias=False, output_bias=False),
        "first_layers": (Layer(feedforward=dense),) * 3,
        "feedforward": Mixture(
            num_experts, 8, expert_hidden, "swiglu", bias=False, num_shared=1, gate="sigmoid", routed_scale=2.5,
            num_groups=8, top_groups=4, balance=0.0001, balance_over="sequence", bias_speed=0.001,
        ),
        "position": Rope(pairs="interleaved"),
        "eps": 1e-6,
    }  # fmt: skip
    return llama(width, num_layers, num_heads, context=context, **fields | more)


def recurrent(mixer: Mixer, width: int = 128, num_layers: int = 2, *, context: int = 128, **more: Any) -> Model:
    """Recurrent layers one on the other and nothing else, between an embedding and a head of its own: no residuals,
    norms, feed-forwards or positions. Mikolov et al. 2010; in layers: Graves 2013.
    """
    fields: dict[str, Any] = {
        "mixer": mixer,
        "feedforward": NoFeedForward(),
        "position": NoPosition(),
        "norm": NoNorm(),
        "residual": "off",
        "head": LinearHead(),
        "init": FanIn(),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def seq2seq(mixer: Mixer, width: int = 128, num_layers: int = 1, **more: Any) -> Model:
    """A recurrent net that reads, and one that writes, whose layers start where the reader's ended: Sutskever et al.
    2014. With `cross=Alignment(...)` (the default) the writer looks back at all that was read: Bahdanau et al. 2015;
    with `cross="none"` a single state has to hold it.
    """
    encoder = Encoder(num_layers=num_layers, causal=True, bridge="states")
    return recurrent(mixer, width, num_layers, **{"encoder": encoder, "cross": Alignment()} | more)


rnn, gru, lstm, min_gru = (partial(recurrent, cell) for cell in (RNN(), GRU(), LSTM(), MinGRU()))


GPT2, GPT3 = partial(gpt2, vocab_size=50257), partial(gpt3, vocab_size=50257)
LLAMA = partial(llama, vocab_size=32000)
BERT, ROBERTA = partial(bert, vocab_size=30522), partial(roberta, vocab_size=50265)
ORIGINAL, BART = partial(transformer, vocab_size=37000), partial(bart, vocab_size=50265)
T5, T5_V1_1 = partial(t5, vocab_size=32128), partial(t5_v1_1, vocab_size=32128)

PUBLISHED: dict[str, Callable[..., Model]] = {
    "gpt1": partial(gpt1, vocab_size=40478),
    "gpt2": partial(GPT2, 768, 12, 12),
    "gpt2-medium": partial(GPT2, 1024, 24, 16),
    "gpt2-large": partial(GPT2, 1280, 36, 20),
    "gpt2-xl": partial(GPT2, 1600, 48, 25),
    "gpt3-small": partial(GPT3, 768, 12, 12),
    "gpt3-medium": partial(GPT3, 1024, 24, 16),
    "gpt3-large": partial(GPT3, 1536, 24, 16),
    "gpt3-xl": partial(GPT3, 2048, 24, 16),
    "gpt3-2.7b": partial(GPT3, 2560, 32, 32),
    "gpt3-6.7b": partial(GPT3, 4096, 32, 32),
    "gpt3-13b": partial(GPT3, 5120, 40, 40),
    "gpt3-175b": partial(GPT3, 12288, 96, 96),
    "llama-7b": partial(LLAMA, 4096, 32, 32, hidden=11008, eps=1e-6),
    "llama-13b": partial(LLAMA, 5120, 40, 40, hidden=13824, eps=1e-6),
    "llama-33b": partial(LLAMA, 6656, 60, 52, hidden=17920, eps=1e-6),
    "llama-65b": partial(LLAMA, 8192, 80, 64, hidden=22016),
    "llama2-70b": partial(LLAMA, 8192, 80, 64, hidden=28672, num_kv_heads=8, context=4096),
    "llama3-8b": partial(
        llama, 4096, 32, 32, hidden=14336, num_kv_heads=8, context=8192, theta=500_000.0, vocab_size=128_256
    ),
    "llama3.1-8b": partial(
        llama, 4096, 32, 32, hidden=14336, num_kv_heads=8, context=131_072, vocab_size=128_256,
        position=Rope(theta=500_000.0, scaling=Llama3Scaling()),
    ),
    "bert-base": partial(BERT, 768, 12, 12),
    "bert-large": partial(BERT, 1024, 24, 16),
    "roberta-base": partial(ROBERTA, 768, 12, 12),
    "roberta-large": partial(ROBERTA, 1024, 24, 16),
    "vit-base": partial(vit, 768, 12, 12),
    "transformer-base": partial(ORIGINAL, 512, 6, 8, hidden=2048),
    "transformer-big": partial(ORIGINAL, 1024, 6, 16, hidden=4096),
    "t5-small": partial(T5, 512, 6, 8, hidden=2048),
    "t5-base": partial(T5, 768, 12, 12, hidden=3072),
    "t5-large": partial(T5, 1024, 24, 16, hidden=4096),
    "t5-v1.1-small": partial(T5_V1_1, 512, 8, 6, hidden=1024),
    "t5-v1.1-base": partial(T5_V1_1, 768, 12, 12, hidden=2048),
    "bart-base": partial(BART, 768, 6, 12),
    "bart-large": partial(BART, 1024, 12, 16),
    "switch-base-8": partial(switch, 768, 12, 12, hidden=3072, num_experts=8, vocab_size=32128),
    "mixtral-8x7b": partial(mixtral, 4096, 32, 32, hidden=14336, context=32_768, theta=1e6, vocab_size=32_000),
    "deepseekmoe-16b": partial(deepseek_moe, 2048, 28, 16, context=4096, vocab_size=102_400),
    "deepseek-v3": partial(
        deepseek_v3, 7168, 61, 128, context=163_840, vocab_size=129_280,
        position=Rope(pairs="interleaved", scaling=YarnScaling(factor=40.0)),
    ),
}  # fmt: skip


def named(name: str, **more: Any) -> Model:
    """A published size by name, with any field of Model changed."""
    if name not in PUBLISHED:
        raise ConfigError(f"there is no preset {name!r}{nearest(name, PUBLISHED)}; there are {', '.join(PUBLISHED)}")
    return replace(PUBLISHED[name](), **more)
