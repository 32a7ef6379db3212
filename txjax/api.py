"""A trained run in a notebook: load it, score text with it, let it write.

import txjax

run = txjax.load("runs/shakespeare")
txjax.logits(run, "To be, or not to be")        # (T, V)
txjax.generate(run, "ROMEO:", tokens=200)
txjax.embed(run, ["a cat", "a kitten"])         # (2, D), of an encoder
txjax.translate(run, ["ein Hund läuft ."])      # where the model has an encoder
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax import decode
from txjax.batch import Batch
from txjax.config import Config
from txjax.data.codec import Codec, load_codec
from txjax.models import Model, build
from txjax.nn.heads.pooler import Pool
from txjax.probe.sentences import sentence_vectors
from txjax.store import Run
from txjax.store.averaging import average as mean_of_checkpoints
from txjax.train.state import initial_state


@dataclass(frozen=True)
class Loaded:
    """A run's config and model, the parameters of one of its checkpoints, and its tokenizer."""

    config: Config
    model: Model
    params: Any
    codec: Codec
    step: int
    folder: Path


def load(workdir: str | Path, step: int | Literal["latest", "best"] = "latest", *, average: int = 1) -> Loaded:
    """The checkpoint of a run folder, or the mean of the last `average` ones up to it. ConfigError where the folder,
    the step or the tokenizer is not there, the run does not keep so many checkpoints (train.keep_last), or the
    checkpoint does not fit the config beside it.
    """
    run = Run.read(workdir)
    model = build(run.config.model)
    found = run.saved.find(step)
    one_device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    shapes = jax.tree.map(
        lambda s: jax.ShapeDtypeStruct(s.shape, s.dtype, sharding=one_device),
        jax.eval_shape(lambda: initial_state(run.config, model)).params,
    )
    if average == 1:
        params = run.saved.restore(found, params=shapes).params
    else:
        params = mean_of_checkpoints(run, shapes, last=average, until=found)
    return Loaded(run.config, model, params, load_codec(run.tokenizer), found, run.folder)


def logits(run: Loaded, text: str) -> Float[Array, "T V"]:
    """The scores of the next token after each token of a text, begun as the tokenizer begins one."""
    tokens = jnp.asarray(run.codec.prompt(text))[None]
    return run.model.apply(run.params, Batch(tokens=tokens)).logits[0]  # type: ignore[index]


def generate(
    run: Loaded,
    prompts: str | Sequence[str] = "",
    *,
    tokens: int = 200,
    temperature: float | Sequence[float] = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    past_context: Literal["error", "slide"] = "slide",
) -> list[str]:
    """Each prompt with up to `tokens` tokens after it; it ends early at the tokenizer's end of text.

    Prompt i is drawn with seed + i, and comes out as it would alone. See txjax.decode.generate for past_context. On a
    CPU a single prompt can take half the time where txjax.cli.thread_small_loops is called before jax makes its first
    array, as `txjax generate` does.
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    codec = run.codec
    ends = codec.separator if codec.separator is not None else codec.bos
    starts = [codec.prompt(text).tolist() for text in texts]
    new = decode.generate(
        run.model,
        run.params,
        starts,
        tokens=tokens,
        sampling=decode.Sampling(temperature, top_k, top_p, end=ends, limit=codec.vocab_size, never=codec.unwritten),
        seeds=[seed + i for i in range(len(texts))],
        context=run.config.model.memory,
        past_context=past_context,
    )
    rows = (start + [t for t in ids if t != ends] for start, ids in zip(starts, new, strict=True))
    return [codec.decode(ids) for ids in rows]


def translate(
    run: Loaded,
    lines: Sequence[str],
    *,
    beam: int = 5,
    length_penalty: float = 1.0,
    penalty: decode.Penalty = "fairseq",
    stop: decode.Stop = "certain",
    ratio: float = 1.0,
    extra: int = 50,
    longest: int | None = None,
    batch_size: int = 64,
    advance: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """Each line through a model with an encoder, by beam search, in the order of the lines; a blank line stays blank.

    See txjax.decode.BeamSearch for what is looked for, txjax.decode.translate for the rest. ratio and extra are Vaswani
    et al. 2017's, section 6.1.
    """
    search = decode.BeamSearch(
        end=run.codec.end,
        size=beam,
        length_penalty=length_penalty,
        penalty=penalty,
        stop=stop,
        ratio=ratio,
        extra=extra,
        longest=longest,
        limit=run.codec.vocab_size,
        never=run.codec.unwritten,
    )
    how = {"search": search, "batch_size": batch_size, "advance": advance}
    return decode.translate(run.model, run.params, run.config.model, run.codec, lines, **how)


def embed(run: Loaded, texts: str | Sequence[str], *, pool: Pool = "mean") -> Float[np.ndarray, "M D"]:
    """A vector of length 1 for each text, the mean over its tokens' last states, or one of them: a product of two is
    their similarity. Texts get the ids that the tokenizer puts around one, and are cut at the run's context.
    """
    codec, context = run.codec, run.config.context
    before, after = ([codec.specials[role]] if role in codec.specials else [] for role in ("cls", "sep"))
    room = context - len(before) - len(after)

    def ids(text: str) -> list[int]:
        bare = codec.encode(text).tolist()[:room]
        return [*before, *bare, *after] or codec.prompt(text).tolist()

    rows = [ids(text) for text in ([texts] if isinstance(texts, str) else texts)]
    return sentence_vectors(run.config.model, run.params, rows, how=pool)
