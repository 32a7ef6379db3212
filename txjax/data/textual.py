"""Sources of documents: their text is tokenized and cut into sequences."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from txjax.config.data import Data, Source, Split
from txjax.data.codec import Codec
from txjax.data.dataset import Dataset, Examples
from txjax.data.documents import Documents

if TYPE_CHECKING:
    from txjax.config.root import Config

logger = logging.getLogger(__name__)


class Textual(Source):
    """A source of documents, made ids by `data.tokenizer` and sequences by `data.chunking`."""

    def documents(self, split: Split, data: Data) -> Iterator[str] | None:
        """The documents of a split, in order; None where there is no test."""
        raise NotImplementedError

    def judge(self, config: Config, codec: Codec) -> None:
        config.data.objective.validate(config.model)

    def codec(self, data: Data) -> Codec:
        return data.tokenizer.build(self._texts("train", data)).extended(data.objective.specials)

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        texts = self._texts("train", config.data)
        codec = config.data.tokenizer.build(texts) if saved is None else saved
        codec = codec.extended(config.data.objective.specials)
        config.with_vocab(codec.vocab_size)  # refuses a model with fewer rows in its embedding
        train = _examples(config, codec, texts, "train")
        validation = _examples(config, codec, self._texts("validation", config.data), "validation")
        held_out = self.documents("test", config.data)
        test = None if held_out is None else _examples(config, codec, list(held_out), "test")
        return Dataset(codec, train, validation, test)

    def _texts(self, split: Split, data: Data) -> list[str]:
        return list(self.documents(split, data) or ())


def _examples(config: Config, codec: Codec, texts: list[str], split: Split) -> Examples:
    objective = config.data.objective
    documents = Documents.join((codec.encode(text) for text in texts), codec)
    documents.check_ids(codec.vocab_size, split)
    sequences = config.data.chunking.chunk(documents, objective.room(config.context), split)
    if split != "train" and config.data.held_out is not None:
        sequences = sequences.thinned(config.data.held_out)
    examples = objective.examples(sequences, codec, split, config.context)
    logger.info("%s: %s", split, examples.report)
    return examples
