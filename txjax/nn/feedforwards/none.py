"""No feed-forward: an attention-only layer."""

from __future__ import annotations

from dataclasses import dataclass

from txjax.config.parts import FeedForward


@dataclass(frozen=True)
class NoFeedForward(FeedForward, kind="none"):
    """The sublayer, its norm and its residual connection are left out."""
