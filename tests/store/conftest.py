from __future__ import annotations

import resource
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Call it, and from then on no file can grow beyond that many bytes: writes fail as on a full disk, root's too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
