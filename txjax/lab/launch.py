"""Launches of a study of speeds: a process for each seed, which measures every arm once, in an order of its own.

Steps timed in one process share its state of memory and clocks; launches do not, and are what a spread is over.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from txjax.lab.cells import Cell


def launch(file: Path, tier: str, workdir: Path, seed: int) -> None:
    """Run one seed of a study in a process of its own; RuntimeError with its last line where it fails."""
    command = ["ablate", str(file), f"--tier={tier}", f"--workdir={workdir}", f"--launch={seed}"]
    done = subprocess.run([sys.executable, "-m", "txjax", *command], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(f"launch {seed} failed: {lines[-1] if lines else done.returncode}")


def shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """In the launch's own order: what warms up, or slows down, falls on another arm in each."""
    return random.Random(seed).sample(list(cells), len(cells))
