"""The whole of an experiment's config, and what its sections must agree on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace

from txjax.config.data import Data
from txjax.config.model import Model
from txjax.config.optim import Optim
from txjax.config.train import Log, Mesh, Train
from txjax.schema import ConfigError, Section, require, to_dict


@dataclass(frozen=True)
class Config(Section):
    """Every knob once; nothing else in the project holds a default."""

    model: Model = field(default_factory=Model)
    data: Data = field(default_factory=Data)
    optim: Optim = field(default_factory=Optim)
    train: Train = field(default_factory=Train)
    mesh: Mesh = field(default_factory=Mesh)
    log: Log = field(default_factory=Log)

    def check(self) -> None:
        self._check_groups()
        longest = self.model.max_length
        if longest is not None and self.context > longest:
            source, own = self.data.source, self.data.source.context
            what = f"data.context={self.context}" if own is None else f"data.source={source.kind} of {own} tokens"
            raise ConfigError(
                f"{what} runs past the model's position table of {longest}: "
                f"set model.context={self.context}, or a position without a table such as model.position=rope"
            )

    def _check_groups(self) -> None:
        deepest = max(self.model.num_layers, self.model.encoder.num_layers if self.model.encoder else 0)
        for i, group in enumerate(self.optim.groups):
            beyond = [layer for layer in group.layers or () if layer >= deepest]
            require(
                not beyond,
                f"optim.groups[{i}].layers: the model has no layer {', '.join(map(str, beyond))}, only 0 to "
                f"{deepest - 1}",
            )

    @property
    def context(self) -> int:
        """Tokens in a training sequence."""
        return self.data.source.context or self.data.context or self.model.context

    def with_vocab(self, size: int, source: int | None = None) -> Config:
        """The config with the vocabulary's size where the model leaves it open; refuses a smaller embedding.

        source: size of the one that an encoder reads, where it is another.
        """
        model, encoder = self.model, self.model.encoder
        if source is not None and encoder is not None:
            require(
                encoder.embedding == "own",
                f"model.encoder.embedding={encoder.embedding} cannot be where the data has a vocabulary for each side: "
                "set it to own",
            )
            encoder = replace(encoder, vocab_size=_rows(encoder.vocab_size, source, "model.encoder.vocab_size"))
        rows = _rows(model.vocab_size, size, "model.vocab_size")
        return replace(self, model=replace(model, encoder=encoder, vocab_size=rows))

    def digest(self) -> str:
        """Ten hexadecimal digits that name this config: equal for equal values, whichever kinds stay unchosen."""
        text = json.dumps(to_dict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


def _rows(own: int | None, size: int, path: str) -> int:
    """Rows of an embedding: its own number, or one for each id."""
    if own is not None and own < size:
        raise ConfigError(f"{path}={own} is smaller than the {size} ids of the data: set it to {size} or none")
    return size if own is None else own
