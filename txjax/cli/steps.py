"""Which checkpoint an option means."""

from __future__ import annotations

import argparse
from typing import Literal

from txjax.schema import ConfigError


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """A checkpoint of a run, or the mean of several."""
    parser.add_argument("--step", default="latest", metavar="latest|best|N")
    parser.add_argument(
        "--average", type=int, default=1, metavar="N", help="the mean of the last N checkpoints up to it"
    )


def which(text: str) -> int | Literal["latest", "best"]:
    """latest, best or the number of a step; ConfigError for anything else."""
    if text == "latest" or text == "best":
        return text
    if text.isdecimal():
        return int(text)
    raise ConfigError(f"--step must be latest, best or a number, got {text!r}")
