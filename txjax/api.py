"""A trained run in a notebook: load it, score text with it, let it write.

import txjax

run = txjax.load("runs/shakespeare")
txjax.logits(run, "To be, or not to be")        # (T, V)
txjax.generate(run, "ROMEO:", tokens=200)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax import decode
from txjax.batch import Batch
from txjax.config import Config
from txjax.data.codec import Codec, load_codec
from txjax.models import Model, build
from txjax.store import Run
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


def load(workdir: str | Path, step: int | Literal["latest", "best"] = "latest") -> Loaded:
    """The checkpoint of a run folder. ConfigError where the folder, the step or the tokenizer is not there, or the
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
    params = run.saved.restore(found, params=shapes).params
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

    Prompt i is drawn with seed + i, and comes out as it would alone. See txjax.decode.generate for past_context.
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
        sampling=decode.Sampling(temperature, top_k, top_p, end=ends, limit=codec.vocab_size),
        seeds=[seed + i for i in range(len(texts))],
        context=run.config.model.memory,
        past_context=past_context,
    )
    rows = (start + [t for t in ids if t != ends] for start, ids in zip(starts, new, strict=True))
    return [codec.decode(ids) for ids in rows]
