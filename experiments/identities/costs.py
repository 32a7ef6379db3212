"""Costs: what heads, lengths, caches and published sizes come to, counted from the programs."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from small import decoder

from txjax.batch import Batch
from txjax.config import Attention
from txjax.lab.identities import identity, wrong
from txjax.models import Decoder, build, presets
from txjax.models.costs import count_parameters, forward_flops, forward_program, matmul_flops, sequential_depth
from txjax.nn.feedforwards.dense import Dense


def wide(heads: int) -> Decoder:
    """A layer of width 512 as in the original Transformer: attention without biases, F = 2048."""
    attention = Attention(num_heads=heads, qkv_bias=False, output_bias=False)
    return decoder(width=512, num_layers=1, attention=attention, feedforward=Dense(hidden=2048))


@identity("C12", "1, 8 and 16 heads of a width of 512 have the same parameters and matrix-product FLOPs")
def heads_cost_nothing() -> float:
    models = [wide(heads) for heads in (1, 8, 16)]
    counts = [(count_parameters(model.shapes()), forward_flops(model, 1, 512)) for model in models]
    return float(np.ptp(counts, axis=0).max())


@wrong("C12", "and the same weights to hold", 1.0, "there are h T^2 of them")
def heads_cost_weights() -> float:
    held = [heads * 512**2 for heads in map(maps_of, (1, 8))]
    return held[1] / held[0] - 1


def maps_of(heads: int) -> int:
    """T x T maps of weights that a layer makes."""
    model = wide(heads)
    batch = Batch(tokens=jax.ShapeDtypeStruct((1, 8), jnp.int32))

    def maps(params: Any, tokens: Any) -> Any:
        return model.apply(params, Batch(tokens=tokens), capture=("attention_weights",)).captured

    (leaf,) = jax.tree.leaves(jax.eval_shape(maps, model.shapes(), batch.tokens))
    return leaf.size // 8**2


@cache
def by_powers(width: int = 512) -> tuple[float, float]:
    """(a, b) of a layer's forward FLOPs a n + b n^2, from its program at two lengths; the head is left out."""
    every_score = Attention(num_heads=8, implementation="plain")  # others skip what causality hides
    model = decoder(width=width, num_layers=1, vocab_size=1, attention=every_score, head="linear")
    at = {n: forward_flops(model, 1, n) - 2 * n * width for n in (512, 1024)}
    b = (at[1024] - 2 * at[512]) / (1024**2 - 2 * 512**2)
    return at[512] / 512 - 512 * b, b


@identity("C28", "a layer's FLOPs are 24 n d^2 + 4 n^2 d")
def flops_of_a_layer() -> float:
    a, b = by_powers()
    return max(abs(a / (24 * 512**2) - 1), abs(b / (4 * 512) - 1))


@identity("C28", "from 512 to 8192 tokens its n^2 part grows 256 times")
def square_part() -> float:
    _, b = by_powers()
    return abs(b * 8192**2 / (b * 512**2) - 256)


@wrong("E6", "so does all of it", 100.0, "by 50 times at d = 512, by 18 at d = 12288")
def whole_layer() -> float:
    a, b = by_powers()
    return 256 - (a * 8192 + b * 8192**2) / (a * 512 + b * 512**2)


def projections(model: Decoder, tokens: int) -> int:
    """FLOPs of a step of decoding that do not grow with what is cached: those of projecting one token."""

    def step_flops(length: int) -> int:
        cached = jax.eval_shape(lambda: model.empty_cache(1, length))
        program = jax.make_jaxpr(lambda p, t, c: model.step(p, t, c)[0])
        return matmul_flops(program(model.shapes(), jax.ShapeDtypeStruct((1,), jnp.int32), cached).jaxpr)

    return 2 * step_flops(tokens) - step_flops(2 * tokens)


@identity("C16", "n tokens with a cache project n of them, without n (n + 1) / 2: 524,800 for 1024")
def tokens_projected() -> float:
    model, n = decoder(attention=Attention(num_heads=2, implementation="plain")), 1024
    at = {m: forward_flops(model, 1, m) for m in (n, 2 * n)}
    a = (4 * at[n] - at[2 * n]) / (2 * n)  # of each token, the n^2 part taken out
    one = projections(model, n)
    passes = sum(round(a * i / one) for i in range(1, n + 1))
    return abs(passes - 524_800)


@wrong("E38", "without a cache all work of n tokens grows as n^2", 0.5, "that of the scores grows as n^3")
def scores_without_cache() -> float:
    _, b = by_powers()
    work = [sum(b * i**2 for i in range(1, n + 1)) for n in (1024, 2048)]
    return math.log2(work[1] / work[0]) - 2


def depth(mixer: str, length: int) -> int:
    return sequential_depth(forward_program(decoder(mixer=mixer, position="none"), 1, length))


@identity("C27", "the longest chain of operations does not grow with the length: attention, 8 to 64 tokens")
def path_of_attention() -> float:
    return depth("attention", 64) - depth("attention", 8)


@wrong("C27", "nor does it in a tanh RNN", 100.0, "it grows by several operations a token")
def path_of_an_rnn() -> float:
    return depth("rnn", 64) - depth("rnn", 8)


@identity("E10", "an RNN needs one pass of n steps, and a linear recurrence log n: each doubling adds the same")
def path_of_a_linear_recurrence() -> float:
    grown = np.diff([depth("min_gru", n) for n in (8, 16, 32, 64)])
    return float(np.ptp(grown))


@identity("C29", "7B parameters of Llama in 16 bits are about 14 GB", 0.05, "13.48: 'about' is to the gigabyte")
def bytes_of_llama() -> float:
    return abs(2 * count_parameters(build(presets.named("llama-7b")).shapes()) / 14e9 - 1)


@identity("C87", "GPT-3 has 96 layers of 96 heads, of 128")
def heads_of_gpt3() -> float:
    model = presets.named("gpt3-175b")
    return max(abs(model.num_layers - 96), abs(model.attention.num_heads - 96), abs(model.head_dim - 128))


@identity("E2", "Llama's feed-forward has three matrices of 4096 x 11008: with them it has 6,738,415,616 parameters")
def matrices_of_llama() -> float:
    return abs(count_parameters(build(presets.named("llama-7b")).shapes()) - 6_738_415_616)


@wrong("E2", "it has two, and 7B parameters", 1e9, "then it has 5.3 billion")
def two_matrices_of_llama() -> float:
    model = presets.named("llama-7b", feedforward=Dense(hidden=11008, activation="relu", bias=False))
    return 6_738_415_616 - count_parameters(build(model).shapes())


@identity(
    "C53", "feed-forwards hold 64.2 % of Llama-7B, 2/3 of a layer with F = 4 d and no biases", 1e-3, "three digits"
)
def share_of_feed_forwards() -> float:
    def share(shapes: Any, of: Any) -> float:
        return count_parameters(of) / count_parameters(shapes)

    llama = build(presets.named("llama-7b")).shapes()
    block = decoder(attention=Attention(num_heads=2, qkv_bias=False, output_bias=False), norm="none",
                    feedforward=Dense(bias=False)).shapes()["layers"]["block_0"]  # fmt: skip
    dense = share(block, block["dense"])
    return max(abs(share(llama, llama["layers"]["block_0"]["dense"]) - 0.642), abs(dense - 2 / 3))


def cache_bytes(heads: int, kv_heads: int | None = None) -> float:
    attention = Attention(num_heads=heads, num_kv_heads=kv_heads)
    model = decoder(width=64, attention=attention)
    return sum(leaf.nbytes for leaf in jax.tree.leaves(model.empty_cache(3, 10).states))


@identity("C61", "a cache holds 2 B L T K d_h numbers, however many heads of the same width there are")
def size_of_a_cache() -> float:
    want = 2 * 3 * 2 * 10 * 64 * 4
    grouped = cache_bytes(8, 2) * 4
    return max(abs(size - want) for size in (cache_bytes(2), cache_bytes(8), grouped))


@wrong("E7", "8 heads need a larger cache than 2 of the same width", 0.5, "it is as large: 1 where it is not larger")
def heads_enlarge_the_cache() -> float:
    return 0.0 if cache_bytes(8) > cache_bytes(2) else 1.0


@identity("C65", "the state of a text grows by the same for each token in attention, and not at all in an LSTM")
def size_of_a_state() -> float:
    def bytes_at(length: int, **changes: Any) -> int:
        return sum(leaf.nbytes for leaf in jax.tree.leaves(decoder(**changes).empty_cache(1, length).states))

    grown = np.diff([bytes_at(n) for n in (8, 16, 24)])
    lstm = [bytes_at(n, mixer="lstm", position="none") for n in (8, 24)]
    return float(np.ptp(grown) + np.ptp(lstm))
