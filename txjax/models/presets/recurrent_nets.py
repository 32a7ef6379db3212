"""Recurrent nets, alone and one reading for another."""

from __future__ import annotations

from functools import partial
from typing import Any

from txjax.config import Encoder, Layer, Mixer, Model
from txjax.nn.cross.alignment import Alignment
from txjax.nn.cross.search import Search
from txjax.nn.feedforwards.none import NoFeedForward
from txjax.nn.heads.linear import LinearHead
from txjax.nn.initialisations import FanIn
from txjax.nn.mixers.gru import GRU
from txjax.nn.mixers.lstm import LSTM
from txjax.nn.mixers.min_gru import MinGRU
from txjax.nn.mixers.none import NoMixer
from txjax.nn.mixers.rnn import RNN
from txjax.ops.norms import NoNorm
from txjax.ops.positions import NoPosition


def recurrent(mixer: Mixer, width: int = 128, num_layers: int = 2, *, context: int = 128, **more: Any) -> Model:
    """Recurrent layers one on the other and nothing else, between an embedding and a head of its own: no residuals,
    norms, feed-forwards or positions. Mikolov et al. 2010; in layers: Graves 2013.
    """
    fields: dict[str, Any] = {
        "mixer": mixer,
        "feedforward": NoFeedForward(),
        "position": NoPosition(),
        "norm": NoNorm(),
        "residual": "off",
        "head": LinearHead(),
        "init": FanIn(),
    }
    return Model(width=width, num_layers=num_layers, context=context, **fields | more)


def seq2seq(mixer: Mixer, width: int = 128, num_layers: int = 1, **more: Any) -> Model:
    """A recurrent net that reads, and one that writes, whose layers start where the reader's ended: Sutskever et al.
    2014. With `cross=Alignment(...)` (the default) the writer looks back at all that was read: Luong et al. 2015; with
    `cross="none"` a single state has to hold it.
    """
    encoder = Encoder(num_layers=num_layers, causal=True, bridge="states")
    return recurrent(mixer, width, num_layers, **{"encoder": encoder, "cross": Alignment()} | more)


def rnnsearch(width: int = 128, num_layers: int = 1, **more: Any) -> Model:
    """A gated recurrent unit that reads, and one that searches all that was read before each of its steps: Bahdanau et
    al. 2015, with a reader in one direction.
    """
    fields: dict[str, Any] = {
        "encoder": Encoder(num_layers=num_layers, causal=True),
        "pattern": (Layer(mixer=NoMixer()),),
        "cross": Search(),
    }
    return recurrent(GRU(), width, num_layers, **fields | more)


rnn, gru, lstm, min_gru = (partial(recurrent, cell) for cell in (RNN(), GRU(), LSTM(), MinGRU()))
