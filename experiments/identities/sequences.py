"""Sequences: what is seen at once, what is cached, how a text is cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from small import FLOAT32, LENGTH, TOKENS, decoder, logits, off, parameters, quick

from txjax.batch import Batch
from txjax.config import Attention
from txjax.data.chunking.concatenate import Concatenate
from txjax.data.chunking.truncate import Truncate
from txjax.data.chunking.window import Window
from txjax.data.documents import Documents
from txjax.lab.identities import identity, wrong
from txjax.models import Decoder
from txjax.nn.mixers.attention import SelfAttention

CACHED = {
    "sinusoidal": {"position": "sinusoidal"},
    "learned": {"position": "learned"},
    "rotary in a window": {"position": "rope", "mixer": SelfAttention(window=3)},
    "ALiBi with grouped heads": {"position": "alibi", "attention": Attention(num_heads=4, num_kv_heads=2)},
}


@identity("C14", "logits of one teacher-forced pass are those of prefixes of 1, 2 and 7 tokens alone", 1e-5, FLOAT32)
def one_pass_is_all_prefixes() -> float:
    model = decoder()
    whole = logits(model, Batch(tokens=TOKENS))[0]
    return max(off(logits(model, Batch(tokens=TOKENS[:, : i + 1]))[0, i], whole[i]) for i in (0, 1, 6))


@identity("E9", "a recurrent net is teacher-forced as well: one pass gives all prefixes", 1e-5, FLOAT32)
def one_pass_of_a_recurrent_net() -> float:
    model = decoder(mixer="lstm", position="none")
    whole = logits(model, Batch(tokens=TOKENS))[0]
    return max(off(logits(model, Batch(tokens=TOKENS[:, : i + 1]))[0, i], whole[i]) for i in (0, 6))


def decoded(model: Decoder) -> jax.Array:
    """Logits of a text that is read a token at a time, (T, V)."""

    def read(params: Any) -> jax.Array:
        first, cache = model.prefill(params, Batch(tokens=TOKENS[:, :1]), cache_len=LENGTH)
        _, rest = jax.lax.scan(lambda c, t: model.step(params, t[None], c)[::-1], cache, TOKENS[0, 1:])
        return jnp.concatenate([first, rest[:, 0]])

    return quick(read)(parameters(model))


@identity("C15", f"decoding with a cache has the logits of the full pass: {', '.join(CACHED)}", 1e-5, FLOAT32)
def cached_decoding() -> float:
    models = [decoder(**changes) for changes in CACHED.values()]
    return max(off(decoded(model), logits(model, Batch(tokens=TOKENS))[0]) for model in models)


def packed(positions: bool, segments: bool) -> float:
    """Two texts of 5 and 7 tokens in one row, against each alone; a learned table shows where positions go on."""
    model, cut = decoder(position="learned"), 5
    row = Batch(
        tokens=TOKENS,
        segments=jnp.where(jnp.arange(LENGTH) < cut, 1, 2)[None] if segments else None,
        positions=jnp.concatenate([jnp.arange(cut), jnp.arange(LENGTH - cut)])[None] if positions else None,
    )
    alone = [logits(model, Batch(tokens=part))[0] for part in (TOKENS[:, :cut], TOKENS[:, cut:])]
    return off(logits(model, row)[0], jnp.concatenate(alone))


@identity("C17", "texts packed into a row, masked and with positions of their own, are as if alone", 1e-5, FLOAT32)
def packed_texts() -> float:
    return packed(positions=True, segments=True)


@wrong("C17", "the mask alone would do", 0.01, "a learned table sees other positions")
def packed_without_positions() -> float:
    return packed(positions=False, segments=True)


@wrong("C17", "positions alone would do", 0.01, "the second text reads the first")
def packed_without_mask() -> float:
    return packed(positions=True, segments=False)


@identity("C18", "the loss of a block has no gradient in the block before it")
def blocks_are_apart() -> float:
    """Blocks of one text are rows of a batch; each token occurs once, so that embeddings tell them apart."""
    model, half = decoder(head="linear"), LENGTH // 2
    params, rows = parameters(model), TOKENS.reshape(2, half)

    def second(table_VD: jax.Array) -> jax.Array:
        changed = {**params, "embedding": {"w": table_VD}}
        return jnp.square(model.apply(changed, Batch(tokens=rows)).logits[1]).sum()

    reach_VD = quick(jax.grad(second))(params["embedding"]["w"])
    assert float(jnp.abs(reach_VD[rows[1]]).max()) > 0
    return float(jnp.abs(reach_VD[rows[0]]).max())


W, STRIDE, TEXT = 512, 256, 8192


def text() -> Documents:
    """One document, whose tokens are their own places."""
    return Documents(np.arange(TEXT, dtype=np.int32), np.array([0]), np.array([TEXT]), ())


def split_spans(length: int) -> int:
    """Spans of a text that lie whole in no window."""
    windows = Window(stride=STRIDE).chunk(text(), W, "train")
    starts = np.array([windows[i]["tokens"][0] for i in range(len(windows))])
    firsts = np.arange(int(starts.max()) + W - length + 1)
    inside = (starts[:, None] <= firsts) & (firsts + length <= starts[:, None] + W)
    return int((~inside.any(0)).sum())


@identity("C19", "every span of overlap + 1 = 257 tokens lies whole in a window of 512 moved by 256")
def short_spans_are_whole() -> float:
    return split_spans(W - STRIDE + 1)


@wrong("C19", "any span that fits a window does: spans of 258", 0.0, "some are cut")
def longer_spans_are_whole() -> float:
    return split_spans(W - STRIDE + 2)


@identity("C19", "it reads each token W / s = 2 times", 0.05, "the ends of the text are read once")
def windows_cost() -> float:
    once, often = (kind.chunk(text(), W, "train").report.tokens for kind in (Concatenate(), Window(stride=STRIDE)))
    return abs(often / once / (W / STRIDE) - 1)


@identity("C20", "truncation keeps the first max_len tokens of a document, and nothing else")
def truncation() -> float:
    starts, stops = np.array([0, 20]), np.array([20, 29])
    cut = Truncate().chunk(Documents(np.arange(29, dtype=np.int32), starts, stops, ()), 12, "train")
    kept = [row["tokens"][row["segments"] > 0] for row in (cut[0], cut[1])]
    want = [np.arange(12), np.arange(20, 28)]  # of the second, the last token is only ever predicted
    return max(float(np.abs(k - w).max()) if len(k) == len(w) else 1.0 for k, w in zip(kept, want, strict=True))


@identity("C17", "padding behind a text changes nothing of it", 1e-5, FLOAT32)
def padding_is_not_seen() -> float:
    real = jnp.where(jnp.arange(LENGTH) < 8, 1, 0)[None]
    model = decoder()
    alone = logits(model, Batch(tokens=TOKENS[:, :8]))
    return off(logits(model, replace(Batch(tokens=TOKENS), segments=real))[:, :8], alone)
