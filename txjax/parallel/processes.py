"""Several processes that train one model, each with its own devices."""

from __future__ import annotations

import os
import sys
import time

import jax
import numpy as np
from jax._src import distributed  # its barrier has no public name
from jax.experimental import multihost_utils

from txjax.schema import ConfigError

PATIENCE = 5  # seconds


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
    """End this process, if it is one of several, so that a failure ends all of them within seconds: an ordinary exit
    waits for the others, who wait for this one.
    """
    if jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        _meet_others()
        os._exit(code)


def _meet_others() -> None:
    """Wait for the others for a moment: where all of them leave, each with its own message and code, the process that
    serves them must go last, since without it the rest are aborted.
    """
    group = distributed.global_state
    try:
        group.client.wait_at_barrier("txjax_leaves", 1000 * PATIENCE)  # type: ignore[union-attr]
    except Exception:  # they do not leave, or are gone
        return
    if group.process_id == 0:
        time.sleep(0.5)
