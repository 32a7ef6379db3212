"""How a run reads a text: its tokens, where its heads look, what they are for, what each layer would say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax import decode, probe
from txjax.batch import Batch
from txjax.data.codec import Codec
from txjax.models import Decoder, Model
from txjax.nn.context import Knobs
from txjax.nn.heads.none import NoHead
from txjax.probe.heads import has_heads
from txjax.probe.layers import PARTS, Part
from txjax.probe.lens import Guesses, speaks
from txjax.schema import ConfigError, require

if TYPE_CHECKING:
    from txjax.api import Loaded

ROWS, PERIOD = 4, 16  # of the random text that repeats itself, for induction heads
EXTRA = 50  # tokens that a translation may have beyond its source's, as in Vaswani et al. 2017


@dataclass(frozen=True)
class Map:
    """Where the heads of one layer look: weights (N, T, S)."""

    layer: int
    weights: np.ndarray


@dataclass(frozen=True)
class Heads:
    """A number for each head of a part: values (L, N), in layers that have heads. about: what it says."""

    name: str
    part: Part
    layers: tuple[int, ...]
    values: np.ndarray
    about: str


@dataclass(frozen=True)
class Lens:
    """The likeliest token after the embedding and after each layer, for each token of `at`, with its probability."""

    at: list[str]
    words: list[list[str]]
    probabilities: np.ndarray


@dataclass(frozen=True)
class Reading:
    """A run and a text. tokens: what the model's own layers read, the first `given` of them not written by itself.
    source: what an encoder under them reads. missing: why there is no lens or no importance, a sentence each.
    """

    run: str
    text: str
    tokens: list[str]
    source: list[str]
    given: int
    maps: dict[Part, list[Map]]
    heads: list[Heads]
    lens: Lens | None
    missing: list[str]
    own: str  # what the part `self` is: decoder or encoder


def read(run: Loaded, label: str, text: str, *, tokens: int | None = None, target: str | None = None) -> Reading:
    """What a text looks like from inside a run.

    tokens: how many the model adds, each the likeliest; None: none, or over an encoder until the text ends. target:
    what a decoder over an encoder reads, instead of its own translation. ConfigError where there is nothing to see.
    """
    config, codec = run.config.model, run.codec
    require(config.embedding.reads == "ids", f"look shows text, and this model reads {config.embedding.reads}")
    require(target is None or config.encoder is not None, "--target is for a model with an encoder: use --text alone")
    source = None if config.encoder is None else codec.reader.source_ids(text).tolist()
    ids = _start(run, text if source is None else target or "")
    given = len(ids)
    for what, row in (("the text", ids), ("the text", source or [])):
        fits = len(row) <= (config.max_length or len(row))
        require(fits, f"{what} has {len(row)} tokens, and the model reads {config.max_length}: shorten --text")
    if source is not None and target is None:
        tokens = len(source) + EXTRA if tokens is None else tokens
    if tokens:
        ids = ids + _written(run, ids, source, tokens)
    batch = Batch(tokens=jnp.asarray([ids]), source=None if source is None else jnp.asarray([source]))
    maps = _maps(run.model, run.params, batch)
    if not maps:
        raise ConfigError("this model has no attention weights to show: no layer of it is softmax attention")
    tokens_of = labels(codec, ids)
    heads, lens, missing = _probes(run, ids, batch, maps)
    return Reading(
        run=label,
        text=text,
        tokens=tokens_of,
        source=[] if source is None else labels(codec.reader, source),
        given=given,
        maps=maps,
        heads=heads,
        lens=lens,
        missing=missing,
        own="decoder" if config.causal else "encoder",
    )


def labels(codec: Codec, ids: Sequence[int]) -> list[str]:
    """Each id as something to read: marks by their names, blanks by signs, part of a character by its bytes."""
    marks = {number: f"<{role}>" for role in ("separator", "bos") if (number := getattr(codec, role)) is not None}
    marks |= {number: f"<{role}>" for role, number in codec.specials.items()}
    return [marks.get(number) or _label(bytes(codec.pieces[number])) for number in map(int, ids)]


def _label(piece: bytes) -> str:
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return " ".join(f"{byte:02x}" for byte in piece)
    return text.strip() or text.replace("\n", "⏎").replace(" ", "␣").replace("\t", "⇥") or "∅"


def _start(run: Loaded, text: str) -> list[int]:
    """The ids of a text as the model's own layers read one: framed by its marks where it sees both sides."""
    codec, config = run.codec, run.config.model
    if config.encoder is not None:
        return [*codec.start, *codec.encode(text).tolist()]
    if config.causal:
        return codec.prompt(text).tolist()
    before, after = ([codec.specials[role]] if role in codec.specials else [] for role in ("cls", "sep"))
    return [*before, *codec.encode(text).tolist(), *after] or codec.prompt(text).tolist()


def _written(run: Loaded, ids: list[int], source: list[int] | None, tokens: int) -> list[int]:
    """What the model adds, the likeliest token each time."""
    config, codec = run.config.model, run.codec
    require(config.generates, f"--tokens needs a model that writes text, and this one has head={config.head.kind}")
    room = tokens if config.memory is None else min(tokens, config.memory - len(ids))
    require(room > 0, f"the text fills the model's context of {config.memory} tokens: shorten --text to add any")
    end = codec.separator if codec.separator is not None else codec.bos
    [new] = decode.generate(
        run.model,
        run.params,
        [ids],
        tokens=room,
        sampling=decode.Sampling(0.0, end=end, limit=codec.vocab_size, never=codec.unwritten),
        seeds=[0],
        context=config.memory,
        sources=None if source is None else [source],
        source_limit=codec.reader.vocab_size,
    )
    return new


@partial(jax.jit, static_argnames="model")
def _captured(params: Any, batch: Batch, *, model: Model) -> Any:
    return model.apply(params, batch, capture=("attention_weights", "residual"), unembed=False).captured


def _maps(model: Model, params: Any, batch: Batch) -> dict[Part, list[Map]]:
    tree = _captured(params, batch, model=model)
    found: dict[Part, list[Map]] = {}
    for part in PARTS:
        rows = probe.sown(tree, "attention_weights", part)
        if maps := [Map(layer, np.asarray(row[0])) for layer, row in enumerate(rows) if row is not None]:
            found[part] = maps
    return found


def _probes(
    run: Loaded, ids: list[int], batch: Batch, maps: dict[Part, list[Map]]
) -> tuple[list[Heads], Lens | None, list[str]]:
    """Numbers of heads, the lens, and why what is missing is."""
    assert isinstance(run.model, Decoder)
    scored, heads = task(run, ids, batch), []
    for part, rows in maps.items():
        if has_heads(run.model, run.params, batch, part):  # a recurrent decoder's alignment has none
            layers = [row.layer for row in rows]
            heads += [
                Heads(name, part, tuple(layers), np.asarray(values)[layers], about)
                for name, values, about in (*_worth(run, part, batch, scored), *_habits(run, part))
            ]
    lens = _lens(run, ids, batch) if speaks(run.model) else None
    missing = [] if lens is not None else ["No logit lens: the head of this model predicts no tokens."]
    if scored is None:
        missing.append("No importance by gradients: this model has no loss of a text.")
    return heads, lens, missing


def _worth(run: Loaded, part: Part, batch: Batch, scored: Batch | None) -> Iterator[tuple[str, Array, str]]:
    """How much depends on each head: the loss of the text, or where there is none its vector."""
    if scored is None:
        headless = Decoder(replace(run.config.model, head=NoHead()))
        yield "knocked out", probe.knockout(headless, run.params, batch, part=part, measure=turned), TURNED
    else:
        yield "importance", probe.importance(run.model, run.params, scored, part=part), IMPORTANCE
        yield "knocked out", probe.knockout(run.model, run.params, scored, part=part), KNOCKOUT


def _habits(run: Loaded, part: Part) -> Iterator[tuple[str, Array, str]]:
    """What each head of a decoder alone does on random tokens that repeat themselves."""
    model, texts = run.config.model, np.flatnonzero(run.codec.is_text)
    period = min(PERIOD, (model.max_length or 4 * PERIOD) // 2 - 1, len(texts))
    if part == "self" and model.causal and model.encoder is None and period > 1:
        rows_BT = probe.repeated_tokens(jnp.asarray(texts), jax.random.key(0), rows=ROWS, period=period)
        found = probe.known_heads(run.model, run.params, rows_BT, period=period, first=run.codec.bos)
        yield "induction", found[0], INDUCTION
        yield "previous token", found[1], PREVIOUS


KNOCKOUT = "What the loss of this text gains, in nats a token, when the head's output is set to zero."
IMPORTANCE = "The slope of this text's loss in a gate on the head, at 1, as a size (Michel et al. 2019)."
TURNED = "1 - cosine of the angle by which the mean of the last states turns when the head's output is set to zero."
INDUCTION = (
    "On random tokens that repeat themselves: the weight on what followed when the token came before (Olsson et al. "
    "2022)."
)
PREVIOUS = "On the same random tokens: the weight on the token before."


def task(run: Loaded, ids: list[int], batch: Batch) -> Batch | None:
    """The batch with what the model has to predict of this text: each next token; of a masked language model each token
    in turn, a row with that one masked (Salazar et al. 2020); None where its head predicts no tokens.
    """
    codec, T = run.codec, len(ids)
    assert isinstance(run.model, Decoder)
    if not speaks(run.model) or T < 2:
        return None
    if run.config.model.generates:
        targets = jnp.asarray([[*ids[1:], 0]])
        return replace(batch, targets=targets, weights=jnp.ones((1, T)).at[0, -1].set(0.0))
    if run.config.model.encoder is not None or "mask" not in codec.specials:
        return None
    hidden = np.flatnonzero(codec.is_text[np.asarray(ids)])
    rows = np.tile(np.asarray(ids, np.int32), (len(hidden), 1))
    weights = np.zeros(rows.shape, np.float32)
    weights[np.arange(len(hidden)), hidden] = 1.0
    masked = np.where(weights > 0, codec.specials["mask"], rows)
    return Batch(tokens=jnp.asarray(masked), targets=jnp.asarray(rows), weights=jnp.asarray(weights))


def turned(model: Model, params: Any, batch: Batch, knobs: Knobs) -> Float[Array, ""]:
    """1 - cosine of the angle between the means of the last states, with and without these knobs."""

    def vector(knobs: Knobs | None) -> Array:
        v_D = model.apply(params, batch, knobs=knobs, unembed=False).hidden.astype(jnp.float32).mean((0, 1))
        return v_D / jnp.maximum(jnp.linalg.norm(v_D), 1e-12)

    return 1 - vector(None) @ vector(knobs)


def _lens(run: Loaded, ids: list[int], batch: Batch) -> Lens:
    found: Guesses = probe.guesses(run.model, run.params, batch)  # type: ignore[arg-type]
    likeliest = np.asarray(found.ids)[:, 0, :, 0]
    known = np.minimum(likeliest, run.codec.vocab_size - 1)  # a padded table has rows that no id has
    words = [labels(run.codec, row) for row in known]
    return Lens(labels(run.codec, ids), words, np.asarray(found.probabilities)[:, 0, :, 0])
