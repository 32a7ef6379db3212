"""What must stand before jax is imported: 8 CPU devices, and compiled programs kept from run to run."""

from __future__ import annotations

import gc
import os
from importlib.metadata import version
from pathlib import Path

import hypothesis
import jaxtyping
import pytest

DEVICES = "--xla_force_host_platform_device_count"
QUICK = "--xla_backend_optimization_level=0"  # most tests compile more than they compute
if version("jaxlib").startswith("0.10."):  # its older code generator needs a quarter of the time; later ones have none
    QUICK += " --xla_cpu_use_fusion_emitters=false"

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if DEVICES not in (flags := os.environ.get("XLA_FLAGS", "")):
    os.environ["XLA_FLAGS"] = f"{flags} {DEVICES}=8 {QUICK}".strip()
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Tracing makes many small objects that live: looking through them all for rings costs 6 % of a run. Nor does anybody
# read where in the source an operation of a test's program came from.
gc.set_threshold(100_000, 50, 100)
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")

CHECKED = ("attention", "convolution", "dropout", "linear", "losses", "recurrence", "sampling")
# Shapes and types at the boundaries of the pure functions. Not where kinds live: their constructors take what a
# config file says, words and dicts, and turn it into the declared types themselves. Nor masks: jax builds pytrees
# around placeholders, too.
jaxtyping.install_import_hook(
    [f"txjax.ops.{name}" for name in CHECKED],
    "beartype.beartype",
)

hypothesis.settings.register_profile("txjax", deadline=None)  # the first example compiles
hypothesis.settings.load_profile("txjax")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ["JAX_PLATFORMS"] == "cpu":
        for item in items:
            if item.get_closest_marker("device"):
                item.add_marker(pytest.mark.skip(reason="needs an accelerator: set JAX_PLATFORMS=cuda,cpu or tpu,cpu"))


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of corpora and small real weights that TXJAX_DATA names."""
    folder = os.environ.get("TXJAX_DATA")
    if not folder:
        pytest.skip("set TXJAX_DATA to a folder with the corpora")
    if not Path(folder).is_dir():
        pytest.fail(f"TXJAX_DATA={folder} is no folder")
    return Path(folder)
