"""Lines of text through a model with an encoder, each to one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from txjax.config import Model as ModelConfig
from txjax.data.codec import Codec
from txjax.decode.beam import BeamSearch, beam_search
from txjax.models import Model
from txjax.schema import require


def translate(
    model: Model,
    params: Any,
    config: ModelConfig,
    codec: Codec,
    lines: Sequence[str],
    *,
    search: BeamSearch,
    batch_size: int,
    advance: Callable[[int], None] = lambda done: None,
) -> list[str]:
    """The best text of a beam search for each line, in the order of the lines; what is blank stays so.

    The encoder reads codec.reader.source_ids(line); the decoder starts with codec.start. Lines of about one length
    share a batch. advance: told how many lines are done. ConfigError for a line that is longer than the model's
    positions, by its number.
    """
    require(config.encoder is not None, "translate needs a model with an encoder: this one only continues text")
    require(batch_size > 0, f"batch_size must be at least 1, got {batch_size}")
    reader = codec.reader
    sources = [reader.source_ids(line).tolist() for line in lines]
    for number, source in enumerate(sources, 1):
        require(
            config.max_length is None or len(source) <= config.max_length,
            f"line {number} has {len(source)} tokens, and the model reads {config.max_length}: shorten or split it",
        )
    texts = [""] * len(lines)
    left = [i for i, line in enumerate(lines) if line.strip()]
    left.sort(key=lambda i: -len(sources[i]))
    for first in range(0, len(left), batch_size):
        chosen = left[first : first + batch_size]
        found = beam_search(
            model,
            params,
            [codec.start] * len(chosen),
            sources=[sources[i] for i in chosen],
            source_limit=reader.vocab_size,
            search=search,
            context=config.memory,
            rows=min(batch_size, len(left)),
        )
        for i, [best, *_] in zip(chosen, found, strict=True):
            texts[i] = codec.decode([token for token in best.ids if codec.is_text[token]])
        advance(len(lines) - len(left) + first + len(chosen))
    return texts
