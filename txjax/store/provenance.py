"""Where a run's numbers come from: the code, the libraries, the machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

PACKAGE = Path(__file__).parents[1]
LIBRARIES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def start(command: Sequence[str]) -> dict[str, Any]:
    """One start of a run, as run.json lists it."""
    device = jax.devices()[0]
    return {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "code": code_version(PACKAGE),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "devices": {
            "platform": device.platform,
            "kind": device.device_kind,
            "processor": processor(),
            "count": jax.device_count(),
            "processes": jax.process_count(),
        },
    }


def processor() -> str:
    """The CPU as its maker calls it, and how many of it this process may use."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    except OSError:  # not a Linux
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores"


def code_version(package: Path) -> dict[str, Any]:
    """The package's version, and the commit it lies in with whether anything of the package differs from it.

    Without git, or where the package is no part of the checkout around it (an environment inside a project, say),
    commit and dirty are None.
    """
    commit = dirty = None
    if _git(package, "ls-files", "."):
        commit = _git(package, "rev-parse", "--verify", "HEAD") or None
        dirty = bool(_git(package, "status", "--porcelain", "."))
    return {"version": version(package.name), "commit": commit, "dirty": dirty}


def version(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *arguments: str) -> str:
    """What git prints, or nothing where it fails or is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
