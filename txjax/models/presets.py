"""Model configs with the sizes that have names: the only place of them.

A family's function takes the sizes and any field of Model; `named("gpt2-medium")` gives a published size. Counts of
parameters are asserted in tests/models/test_presets.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from txjax.config import Attention, Mixer, Model
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.feedforwards.none import NoFeedForward
from txjax.nn.heads.linear import LinearHead
from txjax.nn.initialisations import FanIn, Normal
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.lstm import LSTM
from txjax.nn.mixers.min_gru import MinGRU
from txjax.nn.mixers.rnn import RNN
from txjax.ops.norms import LayerNorm, NoNorm, RMSNorm
from txjax.ops.positions import Learned, Llama3Scaling, NoPosition, Rope
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


rnn, gru, lstm, min_gru = (partial(recurrent, cell) for cell in (RNN(), GRU(), LSTM(), MinGRU()))


GPT2, GPT3 = partial(gpt2, vocab_size=50257), partial(gpt3, vocab_size=50257)
LLAMA = partial(llama, vocab_size=32000)

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
}  # fmt: skip


def named(name: str, **more: Any) -> Model:
    """A published size by name, with any field of Model changed."""
    if name not in PUBLISHED:
        raise ConfigError(f"there is no preset {name!r}{nearest(name, PUBLISHED)}; there are {', '.join(PUBLISHED)}")
    return replace(PUBLISHED[name](), **more)
