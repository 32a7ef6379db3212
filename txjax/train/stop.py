"""Signals that ask a run to stop, as a flag that its loop reads."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Stop:
    asked: bool = False


@contextmanager
def graceful_stop() -> Iterator[Stop]:
    """While the context lasts, SIGTERM and the first Ctrl-C only raise the flag; the next Ctrl-C interrupts.

    To be held until what was trained is saved.
    """
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            if stop.asked:
                raise KeyboardInterrupt
            print("saving and stopping; Ctrl-C again to stop at once", file=sys.stderr)
        stop.asked = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    except ValueError:  # not the main thread: signals are somebody else's
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
