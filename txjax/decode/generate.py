"""Sampling from any model of the contract: prefill the prompts, then one token a step, all on the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.batch import Batch
from txjax.decode.padding import batch_of, check_ids, check_sources, rounded
from txjax.models import Model
from txjax.ops.sampling import filtered_logits, sample
from txjax.schema import require


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn; see txjax.ops.sampling.filtered_logits.

    temperature: 0 is greedy; one number, or one a prompt. end: id that ends a text, or None. limit: ids from this one
    on are never drawn (rows of the embedding that the tokenizer does not use), or None. never: others that are not.
    """

    temperature: float | Sequence[float] = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end: int | None = None
    limit: int | None = None
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for t in np.atleast_1d(self.temperature):
            require(math.isfinite(t) and t >= 0, f"temperature must be 0 (greedy) or a positive number, got {t}")
        require(self.top_k is None or self.top_k > 0, f"top_k must be at least 1 or none, got {self.top_k}")
        require(self.top_p is None or 0 < self.top_p <= 1, f"top_p must be in (0, 1] or none, got {self.top_p}")

    @property
    def greedy(self) -> bool:
        return not np.any(self.temperature)


def generate(
    model: Model,
    params: Any,
    prompts: Sequence[Sequence[int]],
    *,
    tokens: int,
    sampling: Sampling,
    seeds: Sequence[int],
    context: int | None,
    past_context: Literal["error", "slide"] = "error",
    sources: Sequence[Sequence[int]] | None = None,
    source_limit: int | None = None,
) -> list[list[int]]:
    """Up to `tokens` new ids after each prompt; a text that reaches sampling.end stops there, the end included.

    A batch gives what its prompts give alone: row b draws its i-th token with the key (seeds[b], i).
    context: the most tokens the model holds at once (txjax.config.Model.memory), or None: no end. Where prompt and
    tokens together exceed it: error raises ConfigError before anything runs; slide reads the last half of a text again,
    from position 0, each time the text has filled the context.
    sources: what the encoder of a model that has one reads, ids for each prompt; such a prompt is usually one id, the
    start of a text. source_limit: ids of their vocabulary, where it is another; None: sampling.limit.
    """
    _check(prompts, tokens, sampling, seeds)
    check_sources(prompts, sources, source_limit or sampling.limit)
    if past_context == "error" and context is not None:
        _check_room(max(len(p) for p in prompts), tokens, context)
    texts, new = [list(p) for p in prompts], [[] for _ in prompts]
    ended, done = [False] * len(prompts), 0
    while done < tokens and not all(ended):
        # one id stands for a text that has ended: the others alone say how far to go
        texts = [t[:1] if end else _slid(t, context) for t, end in zip(texts, ended, strict=True)]
        longest = max(map(len, texts))
        count = tokens - done if context is None else min(tokens - done, context + 1 - longest)
        drawn = _draw(model, params, texts, sources, count, sampling, seeds, ended, done, context)
        for text, row, piece in zip(texts, new, drawn, strict=True):
            text += piece
            row += piece
        ended = [sampling.end in row[-1:] for row in new]
        done += count
    return new


def _check(prompts: Sequence[Sequence[int]], tokens: int, sampling: Sampling, seeds: Sequence[int]) -> None:
    require(len(prompts) > 0, "there is no prompt: give at least one")
    require(tokens >= 0, f"tokens must not be negative, got {tokens}")
    require(len(seeds) == len(prompts), f"{len(prompts)} prompts need {len(prompts)} seeds, got {len(seeds)}")
    require(all(0 <= seed < 2**32 for seed in seeds), f"seeds must be in [0, 2^32), got {list(seeds)}")
    rates = np.size(sampling.temperature)
    require(rates in (1, len(prompts)), f"{len(prompts)} prompts need 1 or {len(prompts)} temperatures, got {rates}")
    check_ids("prompt", prompts, sampling.limit)


def _check_room(longest: int, tokens: int, context: int) -> None:
    """The last token drawn is never read, so that context + 1 tokens fit."""
    room = context + 1 - longest
    require(
        tokens <= room,
        f"a prompt of {longest} tokens and {tokens} new ones run past the context of {context}: "
        + (f"ask for at most {room}, or " if room > 0 else "shorten it, or ")
        + "choose past_context=slide",
    )


def _slid(text: list[int], context: int | None) -> list[int]:
    """The text, or its last half of a context where it has outgrown the context."""
    return text if context is None or len(text) <= context else text[-max(context // 2, 1) :]


def _draw(
    model: Model,
    params: Any,
    texts: list[list[int]],
    sources: Sequence[Sequence[int]] | None,
    count: int,
    sampling: Sampling,
    seeds: Sequence[int],
    ended: Sequence[bool],
    done: int,
    context: int | None,
) -> list[list[int]]:
    """`count` more ids for each text that has not ended, cut after the end id; `done` have been drawn before."""
    longest = max(map(len, texts))
    batch = batch_of(texts, sources, context)
    drawn, lengths_B = _loop(
        model,
        params,
        batch,
        jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32)),
        None if sampling.greedy else jnp.broadcast_to(jnp.asarray(sampling.temperature, jnp.float32), (len(texts),)),
        None if sampling.top_p is None else jnp.full(1, sampling.top_p, jnp.float32),
        jnp.asarray(ended),
        jnp.asarray(done),
        jnp.asarray(count),
        buffer=rounded(count, None),
        cache_len=rounded(max(longest + count - 1, batch.tokens.shape[1]), context),
        top_k=sampling.top_k,
        end=sampling.end,
        limit=sampling.limit,
        never=sampling.never,
    )
    return [row[:n].tolist() for row, n in zip(np.asarray(drawn), np.asarray(lengths_B), strict=True)]


@partial(jax.jit, static_argnames=("model", "buffer", "cache_len", "top_k", "end", "limit", "never"))
def _loop(
    model: Model,
    params: Any,
    batch: Batch,
    keys_B: Array,
    temperature_B: Float[Array, " B"] | None,
    top_p: Float[Array, " 1"] | None,
    ended_B: Bool[Array, " B"],
    done: Int[Array, ""],
    count: Int[Array, ""],
    *,
    buffer: int,
    cache_len: int,
    top_k: int | None,
    end: int | None,
    limit: int | None,
    never: tuple[int, ...],
) -> tuple[Int[Array, "B M"], Int[Array, " B"]]:
    """New ids, and how many of them count in each row; stops early once every row has ended."""
    logits_BV, cache = model.prefill(params, batch, cache_len)
    B, V = logits_BV.shape

    def draw(logits_BV: Array, i: Array) -> Array:
        if limit is not None and limit < V:
            logits_BV = jnp.where(jnp.arange(V) < limit, logits_BV, -jnp.inf)
        if never:
            logits_BV = logits_BV.at[:, jnp.array(never)].set(-jnp.inf)
        if temperature_B is None:  # all are greedy
            return jnp.argmax(logits_BV, -1).astype(jnp.int32)
        kept_BV = filtered_logits(logits_BV, temperature_B=temperature_B, top_k=top_k, top_p=top_p)
        return sample(kept_BV, jax.vmap(jax.random.fold_in, (0, None))(keys_B, done + i))

    def put(written: tuple[Array, Array, Array], ids_B: Array, i: Array) -> tuple[Array, Array, Array]:
        out_BM, ended_B, lengths_B = written
        out_BM = out_BM.at[:, i].set(jnp.where(ended_B, 0, ids_B))
        lengths_B = lengths_B + ~ended_B
        return out_BM, ended_B if end is None else ended_B | (ids_B == end), lengths_B

    def unfinished(carry: tuple[Any, ...]) -> Array:
        i, _, _, (_, ended_B, _) = carry
        return (i < count) & ~ended_B.all()

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        i, ids_B, cache, written = carry
        logits_BV, cache = model.step(params, ids_B, cache)
        ids_B = draw(logits_BV, i)
        return i + 1, ids_B, cache, put(written, ids_B, i)

    first_B = draw(logits_BV, jnp.asarray(0))
    empty = (jnp.zeros((B, buffer), jnp.int32), ended_B, jnp.zeros(B, jnp.int32))
    start = (jnp.asarray(1), first_B, cache, put(empty, first_B, jnp.asarray(0)))
    out_BM, _, lengths_B = jax.lax.while_loop(unfinished, body, start)[3]
    return out_BM, lengths_B
