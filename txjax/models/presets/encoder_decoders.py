"""Decoders over encoders: the original Transformer, T5, BART."""

from __future__ import annotations

from typing import Any

from txjax.config import Attention, Encoder, Model
from txjax.nn.embeddings.tokens import Tokens
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.heads.linear import LinearHead
from txjax.nn.heads.tied import Tied
from txjax.nn.initialisations import FanIn, Normal
from txjax.ops.norms import RMSNorm
from txjax.ops.positions import Learned, Relative, Sinusoidal


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
