"""Weights of g2p-en: one GRU reads the letters of a word, another writes its phonemes from the state it ended in.

An npz file of twelve float32 arrays, named as in TABLE. They are those of PyTorch's GRU: gates in the order reset,
keep, new; a bias beside the inputs and one beside the state. Both biases of reset and keep are only ever added up, and
txjax has their sum alone: a file is read, and not written again. Sources end with the end id; a text starts with its
own mark, and is at most LONGEST phonemes long.

pypi.org/project/g2p-en 2.1.0, g2p.py (G2p.predict); vocabularies of the same file, the phonemes those of
speech.cs.cmu.edu/cgi-bin/cmudict.
"""

from __future__ import annotations

import string
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from txjax.config import Encoder, Model
from txjax.data.tokenizers.listed import Listed
from txjax.interop import table
from txjax.interop.table import Row
from txjax.models import Decoder, presets
from txjax.nn.cross.none import NoCross
from txjax.nn.heads.linear import LinearHead
from txjax.nn.mixers.gru import GRU
from txjax.schema import ConfigError, require
from txjax.store.files import reason

VOWELS = "AA AE AH AO AW AY EH ER EY IH IY OW OY UH UW"  # each with its stress: 0 none, 1 primary, 2 secondary
CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH"
STRESSED = [vowel + stress for vowel in VOWELS.split() for stress in "012"]
LETTERS = Listed(
    symbols=("<pad>", "<unk>", "</s>", *string.ascii_lowercase),
    between="nothing",
    end="</s>",
    pad="<pad>",
    unknown="<unk>",
)
PHONEMES = Listed(
    symbols=("<pad>", "<unk>", "<s>", "</s>", *sorted([*STRESSED, *CONSONANTS.split(), "UW"])),  # UW without one too
    begin="<s>",
    end="</s>",
    pad="<pad>",
    unknown="<unk>",
)
LONGEST = 20


def _side(ours: str, theirs: str) -> table.Table:
    return (
        Row(f"{ours}embedding/w", f"{theirs}_emb", "V D -> V D"),
        Row(f"{ours}layers/gru/input/w", f"{theirs}_w_ih", "(G H) D -> D G H"),
        Row(f"{ours}layers/gru/input/b", f"{theirs}_b_ih", "(G H) -> G H"),
        Row(f"{ours}layers/gru/recurrent/w", f"{theirs}_w_hh", "(G H) D -> D G H"),
        Row(f"{ours}layers/gru/b", f"{theirs}_b_hh", "H -> H"),
    )


TABLE = (
    *_side("encoder/", "enc"),
    *_side("", "dec"),
    Row("head/w", "fc_w", "V D -> D V"),
    Row("head/b", "fc_b", "V -> V"),
)


class Weights(NamedTuple):
    model: Model
    params: Any


def read(path: Path) -> Weights:
    """The model and its weights; ConfigError where the file is something else, or an array is missing or misshapen."""
    arrays = _stored(path)
    table_VD = arrays.get("dec_emb", np.empty(0))
    require(table_VD.ndim == 2, f"{path} is no checkpoint of g2p-en: it has no table dec_emb")
    width = table_VD.shape[1]
    try:
        model = Decoder(_model(width))
        return Weights(model.config, table.read(TABLE, model, _summed(arrays, width)))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _model(width: int) -> Model:
    encoder = Encoder(num_layers=1, causal=True, bridge="states", embedding="own", vocab_size=len(LETTERS.symbols))
    return presets.seq2seq(
        GRU(),
        width,
        1,
        encoder=encoder,
        cross=NoCross(),
        head=LinearHead(bias=True),
        vocab_size=len(PHONEMES.symbols),
    )


def _stored(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: np.asarray(arrays[name]) for name in arrays}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {reason(error)}") from None
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path} is no npz file of arrays, or is cut off: {error}") from None


def _summed(arrays: Mapping[str, np.ndarray], width: int) -> dict[str, np.ndarray]:
    """With the biases of reset and keep in b_ih alone; beside the state, b_hh, only that of new is left."""
    ours = dict(arrays)
    for inputs, state in (("enc_b_ih", "enc_b_hh"), ("dec_b_ih", "dec_b_hh")):
        for name in (inputs, state):
            shape = list(np.shape(arrays[name])) if name in arrays else "missing"
            require(shape == [3 * width], f"the weights do not fit the model: {name} must be [{3 * width}], is {shape}")
        gates = 2 * width
        ours[inputs] = np.append(arrays[inputs][:gates] + arrays[state][:gates], arrays[inputs][gates:])
        ours[state] = arrays[state][gates:]
    return ours
