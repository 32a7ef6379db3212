"""Which of the contract tests wait for `make test-long`."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several changes at once, each of which is tested alone in `make test`."""
    for item in items:
        variant = getattr(item, "callspec", None) and item.callspec.params.get("variant")  # type: ignore[attr-defined]
        if FOLDER in item.path.parents and variant is not None and len(variant.changes) > 1:
            item.add_marker(pytest.mark.long)
