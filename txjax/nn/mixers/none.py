"""No mixer: a layer that is its feed-forward alone."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.config.parts import Mixer


@dataclass(frozen=True)
class NoMixer(Mixer, kind="none"):
    """The sublayer, its norm and its residual connection are left out."""
