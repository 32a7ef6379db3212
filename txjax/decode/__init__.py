"""From a model and a prompt to text."""

from txjax.decode.generate import Sampling, generate

__all__ = ["Sampling", "generate"]
