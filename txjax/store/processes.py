"""Several processes of one run: the first of them writes, and all of them learn what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from txjax.schema import ConfigError
from txjax.store.files import StoreError, reason

ERRORS = {error.__name__: error for error in (ConfigError, StoreError)}


def is_first() -> bool:
    """Whether this process writes the run's JSON, metrics and texts."""
    return jax.process_index() == 0


def on_first(action: Callable[[], Any]) -> Any:
    """What `action` returns on process 0, a JSON value, on every process; where it fails, every process fails."""
    if jax.process_count() == 1:
        return action()
    outcome: dict[str, Any] = {}
    if is_first():
        try:
            outcome = {"value": action()}
        except Exception as error:  # the others wait: they must hear of any failure
            outcome = {"error": [type(error).__name__, str(error) or reason(error)]}
    outcome = json.loads(_broadcast(json.dumps(outcome)))
    if "error" in outcome:
        name, text = outcome["error"]
        raise ERRORS.get(name, StoreError)(text)
    return outcome["value"]


def _broadcast(text: str) -> str:
    """Process 0's text."""
    data = np.frombuffer(text.encode(), np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(np.int32(data.size)))
    padded = np.resize(data, length) if is_first() else np.zeros(length, np.uint8)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(padded), np.uint8)).decode()
