"""No cross sublayer: a layer that does not read the encoder."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.config.parts import Cross


@dataclass(frozen=True)
class NoCross(Cross, kind="none"):
    """The sublayer, its norm and its residual connection are left out."""
