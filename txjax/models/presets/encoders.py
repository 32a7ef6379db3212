"""Encoders: BERT, RoBERTa, ELECTRA, ALBERT, ModernBERT, ViT."""

from __future__ import annotations

from typing import Any

from txjax.config import Attention, Layer, Model
from txjax.nn.embeddings.patches import Patches
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.replaced import Replaced
from txjax.nn.initialisations import Normal
from txjax.nn.mixers.attention import SelfAttention
from txjax.ops.norms import LayerNorm, NoNorm
from txjax.ops.positions import Learned, Rope


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
        "head": Masked(next_sentence=True),
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


def electra(
    width: int = 256, num_layers: int = 12, num_heads: int = 4, *, embedding_width: int | None = 128, **more: Any
) -> Model:
    """ELECTRA's discriminator: BERT over an embedding that may be narrower, which says of each token whether it was
    replaced. With head=Masked() its generator. Clark et al. 2020.

    embedding_width: none: the model's, without a projection.
    """
    fields: dict[str, Any] = {"embedding": Tokens(types=2, width=embedding_width), "head": Replaced()}
    return bert(width, num_layers, num_heads, **fields | more)


def albert(
    width: int = 768, num_layers: int = 12, num_heads: int = 12, *, embedding_width: int = 128, **more: Any
) -> Model:
    """ALBERT: BERT with the same parameters in all layers, over a narrower embedding, GELU (tanh). Lan et al. 2020."""
    fields: dict[str, Any] = {
        "embedding": Tokens(types=2, width=embedding_width),
        "sharing": "periods",
        "feedforward": Dense(hidden=4 * width, activation="gelu_tanh"),
        "head": Masked(activation="gelu_tanh"),
    }
    return bert(width, num_layers, num_heads, **fields | more)


def modernbert(
    width: int = 768,
    num_layers: int = 22,
    num_heads: int = 12,
    *,
    hidden: int = 1152,
    context: int = 8192,
    reach: int = 64,
    **more: Any,
) -> Model:
    """ModernBERT: a pre-norm encoder without biases, gated GELU, rotary positions; of three layers two see the tokens
    near by alone, and turn by angles of their own. Its first layer reads normalised embeddings as they are. Warner et
    al. 2024.

    reach: how far on either side such a layer sees.
    """
    local = Layer(mixer=SelfAttention(window=reach + 1, position=Rope()))
    fields: dict[str, Any] = {
        "causal": False,
        "embedding_norm": True,
        "attention": Attention(num_heads=num_heads, qkv_bias=False, output_bias=False),
        "feedforward": Dense(hidden=hidden, activation="geglu", bias=False),
        "first_layers": (Layer(mixer_norm=NoNorm()),),
        "pattern": (local, local, Layer()),
        "position": Rope(theta=160_000.0),
        "norm": LayerNorm(bias=False),
        "head": Masked(bias=False),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


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
