"""What a config says to learn from, loaded and cut: the data layer's entry."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from txjax.config.data import Split
from txjax.config.root import Config
from txjax.data.codec import Codec
from txjax.data.documents import Documents
from txjax.data.sequences import Sequences

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Dataset:
    """A codec, and the sequences of both splits, with a `report` each."""

    codec: Codec
    train: Sequences
    validation: Sequences


def load(config: Config, saved: Codec | None = None) -> Dataset:
    """Read, tokenize and cut the text of `config.data`.

    saved: the codec of a run; none: `config.data.tokenizer` builds one from the training documents.
    Raises ConfigError where a file cannot be used, a split is shorter than a sequence, or an id is outside the
    vocabulary of the tokenizer or of the model.
    """
    texts = list(config.data.source.documents("train", config.data.validation))
    codec: Codec = config.data.tokenizer.build(texts) if saved is None else saved
    config.with_vocab(codec.vocab_size)  # refuses a model with fewer rows in its embedding
    train = _sequences(config, codec, texts, "train")
    texts = list(config.data.source.documents("validation", config.data.validation))
    return Dataset(codec, train, _sequences(config, codec, texts, "validation"))


def _sequences(config: Config, codec: Codec, texts: list[str], split: Split) -> Sequences:
    documents = Documents.join((codec.encode(text) for text in texts), codec)
    documents.check_ids(codec.vocab_size, split)
    sequences = config.data.chunking.chunk(documents, config.context, split)
    logger.info("%s: %s", split, sequences.report)
    return sequences
