"""A run as real processes, killed at random moments of its saves and started again: `killed_run.py FOLDER KILLS`.

The processes are forks of one that has imported everything and computed nothing, so that a start takes no seconds.
Prints a JSON line for each start: the step it went on from, and what the start before it knew to be safe.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import txjax.store.checkpoints
import txjax.store.metrics  # noqa: F401  (imported before the forks)
from txjax.config import Config
from txjax.store import Run

EVERY = 5  # steps between checkpoints
CONFIG = Config()  # which imports every family


def initial() -> dict[str, Any]:
    params = {"x": np.linspace(0.1, 0.9, 1000, dtype=np.float32), "half": np.ones(7, jnp.bfloat16)}
    return {"params": params, "opt_state": (np.zeros(1000, np.float32),), "progress": {"key": np.zeros(2, np.uint32)}}


def update(state: dict[str, Any]) -> dict[str, Any]:
    """A step after which one wrong bit anywhere has grown into all of it. In numpy: nothing to compile."""
    params, (momentum,), key = state["params"], state["opt_state"], state["progress"]["key"]
    x, half = params["x"], params["half"]
    key = key * np.uint32(1664525) + np.uint32(1013904223)
    momentum = np.float32(0.9) * momentum + x
    x = (3.8 + key[0] % 8 * 1e-3) * x * (1 - x)
    half = (half * 3 + momentum[:7]) % 5
    params = {"x": x.astype(np.float32), "half": half.astype(jnp.bfloat16)}
    return {"params": params, "opt_state": (momentum,), "progress": {"key": key}}


def on_device(state: dict[str, Any]) -> dict[str, Any]:
    """As jax arrays, with a typed key."""
    arrays = jax.tree.map(jnp.asarray, state)
    return arrays | {"progress": {"key": jax.random.wrap_key_data(arrays["progress"]["key"])}}


def on_host(state: dict[str, Any]) -> dict[str, Any]:
    data = state | {"progress": {"key": jax.random.key_data(state["progress"]["key"])}}
    return jax.tree.map(np.asarray, data)


def train(folder: Path, journal: int, more: int) -> None:
    """Go on from the newest checkpoint for `more` steps. The journal gets `begun N` and `safe N` of checkpoints."""
    with Run.open(folder, CONFIG, fingerprint=1) as run, run.checkpoints(keep_last=2) as checkpoints:
        state, start = initial(), checkpoints.latest()
        os.write(journal, f"start {start or 0}\n".encode())
        if start is not None:
            restored = checkpoints.restore(start, **on_device(state))
            state = on_host({name: getattr(restored, name) for name in state})
            assert start == restored.data["next_index"]
        with run.metrics(resume_step=start) as metrics:
            for step in range((start or 0) + 1, (start or 0) + 1 + more):
                state = update(state)
                metrics.scalars(step, {"train/loss": state["params"]["x"][0]})
                if step % EVERY == 0:
                    metrics.scalars(step, {"val/loss": state["params"]["x"][1]})
                    metrics.flush()
                    loss = float(state["params"]["x"][1])
                    checkpoints.save(step, **on_device(state), data={"next_index": step}, metric=loss)
                    os.write(journal, f"begun {step}\n".encode())
                    if step % (2 * EVERY) == 0:
                        checkpoints.wait()
                        os.write(journal, f"safe {step}\n".encode())


def session(folder: Path, kill_after: float | None) -> dict[str, int]:
    """One process: killed so many seconds after it began its first checkpoint, or left to do 20 steps."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        code = 1
        try:
            train(folder, write, 20 if kill_after is None else 10**6)
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as journal:
        lines = [journal.readline(), journal.readline()]  # it trains, and its first checkpoint is under way
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        lines += journal.readlines()
    _, status = os.waitpid(pid, 0)
    if kill_after is None and status:
        raise SystemExit(f"the last session failed: {status}")
    if kill_after is not None and os.WIFEXITED(status):
        raise SystemExit("a session failed before it was killed")
    known = {"start": 0, "begun": 0, "safe": 0}
    return known | {line.split()[0]: int(line.split()[1]) for line in lines}


def main(folder: Path, kills: int) -> None:
    chance = random.Random(kills)
    for _ in range(kills):
        print(json.dumps(session(folder, chance.uniform(0.0, 0.6))), flush=True)
    print(json.dumps(session(folder, None)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
