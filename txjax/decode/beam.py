"""Beam search over any model of the contract: a batch of prompts at once, the whole loop on the device.

Of a prompt's k open beams, all of one length, a step looks at the 2k likeliest continuations. Those among the first k
that end are finished, and out of the beam; the k likeliest that do not end are the next open beams. So a text that has
ended is never gone on with, and takes up no open beam. The rule is fairseq's and transformers'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.batch import Batch
from txjax.decode.padding import batch_of, check_ids, check_sources, rounded
from txjax.models import Model
from txjax.schema import require

Penalty = Literal["fairseq", "wu"]
Stop = Literal["certain", "full"]


@dataclass(frozen=True)
class BeamSearch:
    """What is looked for: of the texts y that close with the id `end`, those of the largest

        score(y) = log P(y) / penalty(|y|),  |y| ids with the end, without the prompt

    penalty: fairseq |y|^a, or wu ((5 + |y|) / 6)^a (Wu et al. 2016, equation 14), where a is length_penalty: at 0 the
        score is log P, and the larger it is, the longer are the texts that win.
    size: k, the beams that are open at once. results: how many of the best finished texts come back, at most k.
    ratio, extra, longest: a text ends after min(ratio |source| + extra, longest) ids at the latest, the end included,
        and pays for an end that is forced on it as for any id. A prompt without a source counts |source| = 0.
    stop: certain: once `results` texts are finished and no open beam can come before the last of them, whatever
        follows: probabilities only fall, so that an open beam's score is at most log P / penalty(the longest).
        full: once k texts are finished (fairseq; transformers' early_stopping); with k = 1 this is greedy decoding.
    limit: ids from this one on are never chosen, or None. never: others that are not.
    """

    end: int
    size: int
    length_penalty: float
    penalty: Penalty
    stop: Stop
    ratio: float
    extra: int
    longest: int | None = None
    results: int = 1
    limit: int | None = None
    never: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require(self.size > 0, f"beam must be at least 1, got {self.size}")
        require(0 < self.results <= self.size, f"results must be from 1 to beam={self.size}, got {self.results}")
        require(self.length_penalty >= 0, f"length_penalty must not be negative, got {self.length_penalty}")
        require(self.ratio >= 0, f"ratio must not be negative, got {self.ratio}")
        require(self.longest is None or self.longest > 0, f"longest must be at least 1 or none, got {self.longest}")
        inside = self.end >= 0 and (self.limit is None or self.end < self.limit)
        require(inside, f"end must be an id of the vocabulary, got {self.end}")
        require(self.end not in self.never, f"end={self.end} is among never={self.never}: no text could end")

    def penalties(self, lengths: np.ndarray) -> np.ndarray:
        """penalty(|y|) of each length."""
        base = lengths if self.penalty == "fairseq" else (5.0 + lengths) / 6.0
        return np.asarray(base, np.float64) ** self.length_penalty


class Hypothesis(NamedTuple):
    """A finished text: its new ids, the end included, and its score."""

    ids: list[int]
    score: float


class Beams(NamedTuple):
    """k texts a prompt that are open, and the k best that are finished, the best first; M is the room of a text.

    length: ids of every open text. open_BK: their log P, finished_BK: scores; -inf where there is none.
    """

    length: Int[Array, ""]
    open_BKM: Int[Array, "B K M"]
    open_BK: Float[Array, "B K"]
    finished_BKM: Int[Array, "B K M"]
    finished_BK: Float[Array, "B K"]
    lengths_BK: Int[Array, "B K"]
    done_B: Bool[Array, " B"]


class Rules(NamedTuple):
    """A search as numbers: one program serves all lengths, penalties and stops.

    longest_B: ids that a text may have. penalty_M: of a text of 1, 2, ... ids. wanted: finished texts with which a
    prompt is done; certain: where in addition no open one may be able to come before the last of them.
    """

    longest_B: Int[Array, " B"]
    penalty_M: Float[Array, " M"]
    wanted: Int[Array, ""]
    certain: Bool[Array, ""]


class Move(NamedTuple):
    """What a step has chosen for each of the B k rows of the cache: the row it goes on from, and its next id."""

    rows_R: Int[Array, " R"]
    ids_R: Int[Array, " R"]


def beam_search(
    model: Model,
    params: Any,
    prompts: Sequence[Sequence[int]],
    *,
    search: BeamSearch,
    context: int | None,
    sources: Sequence[Sequence[int]] | None = None,
    source_limit: int | None = None,
    rows: int | None = None,
) -> list[list[Hypothesis]]:
    """The best finished texts after each prompt, search.results of them at most, the best first.

    A batch gives what its prompts give alone. context: the most tokens the model holds at once
    (txjax.config.Model.memory), or None; it bounds the length of a text too. sources, source_limit: as of
    txjax.decode.generate. rows: of the program, where the prompts are fewer: the last batch of many then needs no
    program of its own. ConfigError where a prompt leaves no room for a text.
    """
    require(len(prompts) > 0, "there is no prompt: give at least one")
    check_ids("prompt", prompts, search.limit)
    check_sources(prompts, sources, source_limit or search.limit)
    missing = max((rows or 0) - len(prompts), 0)
    longest_B = _longest(prompts, sources, search, context)
    batch = batch_of(_filled(prompts, missing), None if sources is None else _filled(sources, missing), context)
    most = int(longest_B.max())
    room = rounded(most, None)
    cached = max(max(map(len, prompts)) + most - 1, batch.tokens.shape[1])
    rules = Rules(
        longest_B=jnp.asarray(np.append(longest_B, np.ones(missing)), jnp.int32),  # what nobody asked for ends at once
        penalty_M=jnp.asarray(search.penalties(np.arange(1, room + 1)), jnp.float32),
        wanted=jnp.asarray(search.size if search.stop == "full" else search.results),
        certain=jnp.asarray(search.stop == "certain"),
    )
    beams = _loop(
        model,
        params,
        batch,
        rules,
        size=search.size,
        room=room,
        cache_len=rounded(cached, context),
        end=search.end,
        limit=search.limit,
        never=search.never,
    )
    texts_BKM, lengths_BK, scores_BK = map(np.asarray, (beams.finished_BKM, beams.lengths_BK, beams.finished_BK))
    return [_hypotheses(texts_BKM[b], lengths_BK[b], scores_BK[b], search.results) for b in range(len(prompts))]


def _longest(
    prompts: Sequence[Sequence[int]],
    sources: Sequence[Sequence[int]] | None,
    search: BeamSearch,
    context: int | None,
) -> np.ndarray:
    """The most ids that may follow each prompt; the last of them is never read, so that context + 1 fit in all."""
    lengths = np.array([0] * len(prompts) if sources is None else [len(source) for source in sources])
    most = np.floor(search.ratio * lengths).astype(np.int64) + search.extra
    if search.longest is not None:
        most = np.minimum(most, search.longest)
    if context is not None:
        most = np.minimum(most, context + 1 - np.array([len(prompt) for prompt in prompts]))
    for i, n in enumerate(most):
        require(
            n > 0,
            f"prompt {i} of {len(prompts[i])} tokens leaves no room for a text: ratio={search.ratio}, "
            f"extra={search.extra}, longest={search.longest}, context={context}",
        )
    return most


def _filled(rows: Sequence[Sequence[int]], missing: int) -> list[Sequence[int]]:
    """With rows that nobody asked for, of one id."""
    return [*rows, *([rows[0][:1]] * missing)]


def _hypotheses(ids_KM: np.ndarray, lengths_K: np.ndarray, scores_K: np.ndarray, results: int) -> list[Hypothesis]:
    best = range(min(results, np.isfinite(scores_K).sum().item()))
    return [Hypothesis(ids_KM[k, : lengths_K[k]].tolist(), float(scores_K[k])) for k in best]


@partial(jax.jit, static_argnames=("model", "size", "room", "cache_len", "end", "limit", "never"))
def _loop(
    model: Model,
    params: Any,
    batch: Batch,
    rules: Rules,
    *,
    size: int,
    room: int,
    cache_len: int,
    end: int,
    limit: int | None,
    never: tuple[int, ...],
) -> Beams:
    logits_BV, cache = model.prefill(params, batch, cache_len)
    B = logits_BV.shape[0]
    grow = partial(_grow, rules=rules, end=end, limit=limit, never=never)

    def body(carry: tuple[Beams, Move, Any]) -> tuple[Beams, Move, Any]:
        beams, move, cache = carry
        logits_RV, cache = model.step(params, move.ids_R, model.rows(cache, move.rows_R))
        return *grow(beams, logits_RV), cache

    none_BK = jnp.full((B, size), -jnp.inf, jnp.float32)
    texts_BKM = jnp.zeros((B, size, room), jnp.int32)
    beams = Beams(
        length=jnp.zeros((), jnp.int32),
        open_BKM=texts_BKM,
        open_BK=none_BK.at[:, 0].set(0.0),  # all beams begin alike: one is open
        finished_BKM=texts_BKM,
        finished_BK=none_BK,
        lengths_BK=jnp.zeros((B, size), jnp.int32),
        done_B=jnp.zeros(B, bool),
    )
    beams, move = grow(beams, jnp.repeat(logits_BV, size, axis=0))
    cache = model.rows(cache, jnp.repeat(jnp.arange(B), size))
    return jax.lax.while_loop(lambda carry: ~carry[0].done_B.all(), body, (beams, move, cache))[0]


def _grow(
    beams: Beams,
    logits_RV: Float[Array, "R V"],
    *,
    rules: Rules,
    end: int,
    limit: int | None,
    never: tuple[int, ...],
) -> tuple[Beams, Move]:
    """The beams with one id more in each open text. C counts candidates, R the rows of the cache."""
    (B, K), length = beams.open_BK.shape, beams.length + 1
    must_end_B = length >= rules.longest_B
    total_BC, beam_BC, id_BC = _candidates(beams.open_BK, logits_RV, must_end_B, end, limit, never)
    texts_BCM = _taken(beams.open_BKM, beam_BC).at[:, :, length - 1].set(id_BC)

    ends_BC = id_BC == end
    counts_BC = ends_BC & (jnp.arange(2 * K) < K) & ~beams.done_B[:, None]
    score_BC = jnp.where(counts_BC, total_BC / rules.penalty_M[length - 1], -jnp.inf)
    finished_BK, best_BK = jax.lax.top_k(jnp.concatenate([beams.finished_BK, score_BC], 1), K)
    finished_BKM = _taken(jnp.concatenate([beams.finished_BKM, texts_BCM], 1), best_BK)
    lengths_BK = _taken(jnp.concatenate([beams.lengths_BK, jnp.full_like(id_BC, length)], 1), best_BK)

    open_BK, kept_BK = jax.lax.top_k(jnp.where(ends_BC, -jnp.inf, total_BC), K)
    reachable_B = open_BK[:, 0] / rules.penalty_M[rules.longest_B - 1]
    least_B = jnp.where(rules.certain, reachable_B, jnp.finfo(jnp.float32).min)  # any finished text is above that
    settled_B = finished_BK[:, rules.wanted - 1] >= least_B
    done_B = beams.done_B | settled_B | (open_BK[:, 0] == -jnp.inf)
    rows_BK = K * jnp.arange(B)[:, None] + _taken(beam_BC, kept_BK)
    move = Move(rows_BK.reshape(-1), _taken(id_BC, kept_BK).reshape(-1))
    return Beams(length, _taken(texts_BCM, kept_BK), open_BK, finished_BKM, finished_BK, lengths_BK, done_B), move


def _candidates(
    open_BK: Array, logits_RV: Array, must_end_B: Array, end: int, limit: int | None, never: tuple[int, ...]
) -> tuple[Float[Array, "B C"], Int[Array, "B C"], Int[Array, "B C"]]:
    """log P of the 2k likeliest continuations of each prompt's open texts, the beam each goes on from, and its id."""
    (B, K), V = open_BK.shape, logits_RV.shape[-1]
    ids_V = jnp.arange(V)
    if limit is not None:
        logits_RV = jnp.where(ids_V < limit, logits_RV, -jnp.inf)
    if never:
        logits_RV = logits_RV.at[:, jnp.array(never)].set(-jnp.inf)
    logp_BKV = jax.nn.log_softmax(logits_RV.astype(jnp.float32)).reshape(B, K, V)
    logp_BKV = jnp.where(must_end_B[:, None, None] & (ids_V != end), -jnp.inf, logp_BKV)
    total_BC, place_BC = jax.lax.top_k((open_BK[..., None] + logp_BKV).reshape(B, K * V), 2 * K)
    return total_BC, place_BC // V, place_BC % V


def _taken(x: Array, indices_BK: Int[Array, "B K"]) -> Array:
    """x[b, indices[b, k]], whatever axes follow."""
    return jnp.take_along_axis(x, indices_BK.reshape(*indices_BK.shape, *[1] * (x.ndim - 2)), axis=1)
