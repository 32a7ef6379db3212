"""Several processes that train one model, each with its own devices."""

from __future__ import annotations

import os
import sys

import jax
import numpy as np
from jax.experimental import multihost_utils

from txjax.schema import ConfigError


def join_processes(coordinator: str | None, count: str | None, index: int | None) -> None:
    """Connect this process to the others, before jax has made its first array.

    count: how many there are, or auto: coordinator, count and index are the cluster's to say (Slurm, TPU pods, Open
    MPI). None: this process is alone. Raises ConfigError where one of the three is missing.
    """
    if count is None:
        if coordinator is not None or index is not None:
            raise ConfigError("--coordinator and --process need --processes=N")
        return
    if count == "auto":
        jax.distributed.initialize()
        return
    if not count.isdecimal() or coordinator is None or index is None or not 0 <= index < int(count):
        raise ConfigError(
            f"--processes={count} needs --coordinator=HOST:PORT and --process=I with I from 0 to N - 1, "
            f"got {coordinator} and {index}; on a cluster that jax knows, say --processes=auto"
        )
    jax.distributed.initialize(coordinator, num_processes=int(count), process_id=index)


def any_process(flag: bool) -> bool:
    """Whether the flag is up in any process. All of them must ask at the same moment."""
    if jax.process_count() == 1:
        return flag
    return bool(np.any(multihost_utils.process_allgather(np.array(flag))))


def leave_others(code: int) -> None:
    """End this process at once if it is one of several, so that a failure ends all of them within seconds: an ordinary
    exit waits for the others, who wait for this one.
    """
    if jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
