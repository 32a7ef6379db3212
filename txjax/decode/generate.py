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
from jaxtyping import Array, Float, Int

from txjax.batch import Batch
from txjax.models import Model
from txjax.ops.sampling import filtered_logits, sample
from txjax.schema import ConfigError

BUCKET = 32  # prompt and cache lengths are rounded up to multiples of this, so that few programs are compiled


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn; see txjax.ops.sampling.filtered_logits.

    temperature: 0 is greedy; one number, or one a prompt. end: id that ends a text, or None. limit: ids from this one
    on are never drawn (rows of the embedding that the tokenizer does not use), or None.
    """

    temperature: float | Sequence[float] = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for t in np.atleast_1d(self.temperature):
            if not (math.isfinite(t) and t >= 0):
                raise ConfigError(f"temperature must be 0 (greedy) or a positive number, got {t}")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1 or none, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be in (0, 1] or none, got {self.top_p}")


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
) -> list[list[int]]:
    """Up to `tokens` new ids after each prompt; a text that reaches sampling.end stops there, the end included.

    A batch gives what its prompts give alone: row b draws its i-th token with the key (seeds[b], i).
    context: the most positions the model has, or None. Where prompt and tokens together exceed it: error raises
    ConfigError before anything runs; slide reads the last half of a text again, from position 0, each time the text
    has filled the context.
    """
    _check_prompts(prompts, seeds, sampling.limit)
    longest = max(len(p) for p in prompts)
    if context is not None and longest + tokens > context + 1 and past_context == "error":
        # the last token drawn is never read, so that context + 1 tokens fit
        raise ConfigError(
            f"a prompt of {longest} tokens and {tokens} new ones run past the context of {context}: "
            f"ask for at most {context + 1 - longest}, or choose past_context=slide"
        )
    texts = [list(p) for p in prompts]
    new: list[list[int]] = [[] for _ in prompts]
    while (missing := tokens - max(len(n) for n in new)) > 0:
        if context is not None:
            texts = [t[-max(context // 2, 1) :] if len(t) > context else t for t in texts]
        room = missing if context is None else min(missing, context + 1 - max(len(t) for t in texts))
        drawn = _draw(model, params, texts, room, sampling, seeds, done=len(max(new, key=len)), context=context)
        for text, row, piece in zip(texts, new, drawn, strict=True):
            if sampling.end is None or sampling.end not in row:
                row.extend(piece)
            text.extend(piece or [sampling.end or 0])
        if sampling.end is not None and all(sampling.end in row for row in new):
            break
    return new


def _check_prompts(prompts: Sequence[Sequence[int]], seeds: Sequence[int], limit: int | None) -> None:
    if not prompts:
        raise ConfigError("there is no prompt: give at least one")
    if len(seeds) != len(prompts):
        raise ConfigError(f"{len(prompts)} prompts need {len(prompts)} seeds, got {len(seeds)}")
    for i, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise ConfigError(f"prompt {i} has no tokens: start it with the end-of-text id or any other")
        if min(prompt) < 0 or (limit is not None and max(prompt) >= limit):
            bad = next(t for t in prompt if t < 0 or t >= (limit or t + 1))
            raise ConfigError(f"prompt {i} has the id {bad}, outside the vocabulary of {limit}")


def _draw(
    model: Model,
    params: Any,
    texts: list[list[int]],
    count: int,
    sampling: Sampling,
    seeds: Sequence[int],
    done: int,
    context: int | None,
) -> list[list[int]]:
    """`count` more ids for each text, cut after the end id."""
    lengths = [len(t) for t in texts]
    width = _rounded(max(lengths), context)
    rows = np.zeros((len(texts), width), np.int32)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    segments = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    cache_len = _rounded(max(max(lengths) + count - 1, width), context)
    keys_B = jax.vmap(jax.random.key)(jnp.asarray(seeds, jnp.uint32))
    temperature_B = jnp.broadcast_to(jnp.asarray(sampling.temperature, jnp.float32), (len(texts),))
    drawn, lengths_B = _loop(
        model, params, Batch(tokens=rows, segments=segments), keys_B, temperature_B, jnp.asarray(done),
        jnp.asarray(count), buffer=_rounded(count, None), cache_len=cache_len, top_k=sampling.top_k,
        top_p=sampling.top_p, end=sampling.end, limit=sampling.limit,
    )  # fmt: skip
    return [row[:n].tolist() for row, n in zip(np.asarray(drawn), np.asarray(lengths_B), strict=True)]


def _rounded(length: int, limit: int | None) -> int:
    up = -(-length // BUCKET) * BUCKET
    return up if limit is None else max(min(up, limit), length)


@partial(jax.jit, static_argnames=("model", "buffer", "cache_len", "top_k", "top_p", "end", "limit"))
def _loop(
    model: Model,
    params: Any,
    batch: Batch,
    keys_B: Array,
    temperature_B: Float[Array, " B"],
    done: Int[Array, ""],
    count: Int[Array, ""],
    *,
    buffer: int,
    cache_len: int,
    top_k: int | None,
    top_p: float | None,
    end: int | None,
    limit: int | None,
) -> tuple[Int[Array, "B M"], Int[Array, " B"]]:
    """New ids, and how many of them count in each row; stops early once every row has ended."""
    logits_BV, cache = model.prefill(params, batch, cache_len)
    B, V = logits_BV.shape

    def draw(logits_BV: Array, i: Array) -> Array:
        if limit is not None and limit < V:
            logits_BV = jnp.where(jnp.arange(V) < limit, logits_BV, -jnp.inf)
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
    empty = (jnp.zeros((B, buffer), jnp.int32), jnp.zeros(B, bool), jnp.zeros(B, jnp.int32))
    start = (jnp.asarray(1), first_B, cache, put(empty, first_B, jnp.asarray(0)))
    out_BM, _, lengths_B = jax.lax.while_loop(unfinished, body, start)[3]
    return out_BM, lengths_B
