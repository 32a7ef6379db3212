"""One writer a folder."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from txjax.schema import ConfigError
from txjax.store.files import reason

NAME = ".lock"


class Lock:
    """A folder held by this process until `release`, or until the process ends in whatever way.

    ConfigError where another process holds it, named by its pid, or where the folder cannot be written in. The lock
    is the system's (flock) and not the file, which stays: what a kill leaves behind locks nobody out.
    name: of the file, where a folder has several things that can be held.
    """

    def __init__(self, folder: Path, name: str = NAME) -> None:
        try:
            self._file = open(folder / name, "a+", encoding="utf-8")  # noqa: SIM115  (held open: that is the lock)
        except OSError as error:
            raise ConfigError(f"cannot write in {folder}: {reason(error)}: use another --workdir") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise ConfigError(
                f"{folder} is in use by {holder}: wait for it or stop it, or use another --workdir"
            ) from None
        except OSError as error:
            self._file.close()
            raise ConfigError(f"cannot lock {folder}: {reason(error)}: use another --workdir") from None
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}")
        self._file.flush()

    def release(self) -> None:
        """Let others in. Releasing twice does nothing."""
        self._file.close()
