"""Documents of tokens, in one flat array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from txjax.data.codec import Codec
from txjax.schema import ConfigError


@dataclass(frozen=True)
class Documents:
    """The tokens of a split: S d1 S d2 S ... dn S, where S is the codec's separator.

    A document is read with both its separators, so that a model learns to begin and to end one; neighbours share
    the one between them. A single document, such as one long book, has no ends to learn: no separator at all.

    tokens: int32. Document i is tokens[starts[i]:stops[i]]. pieces: the bytes of each id.
    """

    tokens: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    pieces: Sequence[bytes]

    @classmethod
    def join(cls, documents: Iterable[np.ndarray], codec: Codec) -> Documents:
        """Lay documents, without separators of their own, end to end; empty ones are left out."""
        texts = [ids for ids in documents if len(ids)]
        lengths = np.array([len(ids) for ids in texts], np.int64)
        stops = np.cumsum(lengths)
        starts = stops - lengths
        if codec.separator is not None and len(texts) > 1:
            mark = np.array([codec.separator], np.int32)
            texts = [mark, *(part for ids in texts for part in (ids, mark))]
            starts = starts + np.arange(len(lengths))
            stops = starts + lengths + 2
        tokens = np.concatenate(texts).astype(np.int32, copy=False) if texts else np.zeros(0, np.int32)
        return cls(tokens, starts, stops, codec.pieces)

    def __len__(self) -> int:
        return len(self.starts)

    def check_ids(self, vocab_size: int, split: str) -> None:
        """Refuse ids that an embedding of `vocab_size` rows does not have: an accelerator would read some other row."""
        if not len(self.tokens):
            raise ConfigError(f"data.source: the {split} split has no text")
        least, most = int(self.tokens.min()), int(self.tokens.max())
        if least < 0 or most >= vocab_size:
            raise ConfigError(
                f"data.source: the {split} split has ids from {least} to {most}, but the vocabulary has {vocab_size}: "
                "use the tokenizer that the ids were made with"
            )
