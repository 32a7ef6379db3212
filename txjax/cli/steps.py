"""Which checkpoint an option means."""

from __future__ import annotations

from typing import Literal

from txjax.schema import ConfigError


def which(text: str) -> int | Literal["latest", "best"]:
    """latest, best or the number of a step; ConfigError for anything else."""
    if text == "latest" or text == "best":
        return text
    if text.isdecimal():
        return int(text)
    raise ConfigError(f"--step must be latest, best or a number, got {text!r}")
