"""Which checkpoint an option means."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from txjax.schema import ConfigError

if TYPE_CHECKING:
    from txjax.api import Loaded


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """A checkpoint of a run, or the mean of several."""
    parser.add_argument("--step", default="latest", metavar="latest|best|N")
    parser.add_argument(
        "--average", type=int, default=1, metavar="N", help="the mean of the last N checkpoints up to it"
    )


def load(folder: str | Path, options: argparse.Namespace) -> Loaded:
    """The run in a folder with the weights that the options ask for."""
    from txjax import api

    return api.load(folder, which(options.step), average=options.average)


def said(loaded: Loaded, options: argparse.Namespace) -> str:
    """What was loaded, in words."""
    mean = f", the mean of {options.average} checkpoints" if options.average > 1 else ""
    return f"step {loaded.step} of {loaded.folder}{mean}"


def which(text: str) -> int | Literal["latest", "best"]:
    """latest, best or the number of a step; ConfigError for anything else."""
    if text == "latest" or text == "best":
        return text
    if text.isdecimal():
        return int(text)
    raise ConfigError(f"--step must be latest, best or a number, got {text!r}")
