"""From a model and a prompt, or a source, to text."""

from txjax.decode.beam import BeamSearch, Hypothesis, Penalty, Stop, beam_search
from txjax.decode.generate import Sampling, generate
from txjax.decode.translate import translate

__all__ = [
    "BeamSearch", "Hypothesis", "Penalty", "Sampling", "Stop", "beam_search", "generate",
    "translate",
]  # fmt: skip
