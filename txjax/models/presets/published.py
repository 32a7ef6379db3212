"""Published sizes by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from txjax.config import Model
from txjax.models.presets.decoders import gpt1, gpt2, gpt3, llama, olmo2
from txjax.models.presets.encoder_decoders import bart, t5, t5_v1_1, transformer
from txjax.models.presets.encoders import albert, bert, electra, modernbert, roberta, vit
from txjax.models.presets.mixtures import deepseek_moe, deepseek_v3, gpt_oss, mixtral, switch
from txjax.ops.positions import Llama3Scaling, Rope, YarnScaling
from txjax.schema import ConfigError, nearest

GPT2, GPT3 = partial(gpt2, vocab_size=50257), partial(gpt3, vocab_size=50257)
LLAMA = partial(llama, vocab_size=32000)
BERT, ROBERTA = partial(bert, vocab_size=30522), partial(roberta, vocab_size=50265)
ALBERT, ELECTRA = partial(albert, vocab_size=30000), partial(electra, vocab_size=30522)
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
    "olmo2-7b": partial(olmo2, 4096, 32, 32, hidden=11008, vocab_size=100_352),
    "olmo2-13b": partial(olmo2, 5120, 40, 40, hidden=13824, vocab_size=100_352),
    "olmo2-32b": partial(olmo2, 5120, 64, 40, hidden=27648, num_kv_heads=8, vocab_size=100_352),
    "bert-base": partial(BERT, 768, 12, 12),
    "bert-large": partial(BERT, 1024, 24, 16),
    "roberta-base": partial(ROBERTA, 768, 12, 12),
    "roberta-large": partial(ROBERTA, 1024, 24, 16),
    "albert-base": partial(ALBERT, 768, 12, 12),
    "albert-large": partial(ALBERT, 1024, 24, 16),
    "albert-xlarge": partial(ALBERT, 2048, 24, 16),
    "albert-xxlarge": partial(ALBERT, 4096, 12, 64),
    "electra-small": partial(ELECTRA, 256, 12, 4),
    "electra-base": partial(ELECTRA, 768, 12, 12, embedding_width=None),
    "electra-large": partial(ELECTRA, 1024, 24, 16, embedding_width=None),
    "modernbert-base": partial(modernbert, 768, 22, 12, vocab_size=50368),
    "modernbert-large": partial(modernbert, 1024, 28, 16, hidden=2624, vocab_size=50368),
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
    "gpt-oss-20b": partial(gpt_oss, 2880, 24, 64, num_experts=32, vocab_size=201_088),
    "gpt-oss-120b": partial(gpt_oss, 2880, 36, 64, num_experts=128, vocab_size=201_088),
}  # fmt: skip


def named(name: str, **more: Any) -> Model:
    """A published size by name, with any field of Model changed."""
    if name not in PUBLISHED:
        raise ConfigError(f"there is no preset {name!r}{nearest(name, PUBLISHED)}; there are {', '.join(PUBLISHED)}")
    return replace(PUBLISHED[name](), **more)
