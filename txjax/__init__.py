"""txjax: a laboratory for the Transformer."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax import ops
    from txjax.api import embed, generate, load, logits, translate
    from txjax.models import presets

__version__ = "0.1.0"

_HOMES = dict.fromkeys(("load", "logits", "generate", "translate", "embed"), "txjax.api")


def __getattr__(name: str) -> Any:
    """The public API, imported when it is used: jax takes seconds to import."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "ops":
        return importlib.import_module("txjax.ops")
    if name == "presets":
        return importlib.import_module("txjax.models.presets")
    raise AttributeError(f"module 'txjax' has no attribute {name!r}")


__all__ = ["embed", "generate", "load", "logits", "ops", "presets", "translate"]
