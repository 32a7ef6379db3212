"""Imports run one way through the house (docs/architecture.md), those inside functions too."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "txjax"

# Each line may import from the lines above it, and its members from one another as long as that makes no circle.
LAYERS = (
    ("schema", "batch"),
    ("ops",),
    ("config",),
    ("nn",),
    ("models",),
    ("data", "parallel", "store"),
    ("decode", "probe", "interop"),
    ("train",),
    ("api",),
    ("view",),
    ("lab",),
    ("api",),
    ("cli",),
    ("__main__",),
)
RANK = {member: rank for rank, layer in enumerate(LAYERS) for member in layer}
FORBIDDEN = {
    "ops": {"flax"},  # pure functions on arrays
    "data": {"txjax.nn", "txjax.models"},  # these know no model
    "parallel": {"txjax.nn", "txjax.models"},
    "store": {"txjax.nn", "txjax.models"},
}


def imports(file: Path, package: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every import that can run: all but those under `if TYPE_CHECKING`."""
    here = (package.name, *file.relative_to(package).parent.parts)
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            source = ".".join([*base, *filter(None, [node.module])])
            members = [f"{source}.{alias.name}" for alias in node.names] if source == package.name else [source]
            yield from ((node.lineno, member) for member in members)


def complaints(package: Path) -> list[str]:
    """`file:line` and the reason, for every import that goes against the order."""
    found: list[str] = []
    below: dict[str, set[str]] = {member: set() for member in RANK}
    for file in sorted(package.rglob("*.py")):
        own = file.relative_to(package).with_suffix("").parts[0]
        if own == "__init__":
            continue  # the public names; they are looked up when asked for, as the test below holds
        if own not in RANK:
            found.append(f"{file}: txjax.{own} has no layer in {Path(__file__).name}")
            continue
        for line, name in sorted(imports(file, package)):
            root, *rest = name.split(".")
            for refused in FORBIDDEN.get(own, ()):
                if f"{name}.".startswith(f"{refused}."):
                    found.append(f"{file}:{line}: txjax.{own} must not know {refused}")
            if root != package.name:
                continue
            target = rest[0] if rest else "__init__"
            if target not in RANK:
                found.append(f"{file}:{line}: {name} has no layer: import it from where it is defined")
            elif RANK[target] > RANK[own]:
                found.append(f"{file}:{line}: txjax.{own} must not import txjax.{target}, which stands above it")
            elif target != own:
                below[own].add(target)
    try:
        graphlib.TopologicalSorter(below).prepare()
    except graphlib.CycleError as circle:
        found.append(f"{package}: imports run in a circle: {' <- '.join(circle.args[1])}")
    return found


def test_the_package_keeps_the_order():
    assert not complaints(PACKAGE), "\n".join(complaints(PACKAGE))


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("ops/a.py", "import os\nfrom txjax.config import Config", "a.py:2: txjax.ops must not import txjax.config"),
        ("ops/a.py", "from txjax import cli", "a.py:1: txjax.ops must not import txjax.cli"),
        ("ops/deep/a.py", "from ...nn import mixers", "a.py:1: txjax.ops must not import txjax.nn"),
        ("ops/a.py", "import flax.linen as nn", "a.py:1: txjax.ops must not know flax"),
        ("nn/a.py", "def f():\n    import txjax.train.loop", "a.py:2: txjax.nn must not import txjax.train"),
        ("data/a.py", "from txjax.models.decoder import Decoder", "a.py:1: txjax.data must not know txjax.models"),
        ("train/a.py", "from txjax import presets", "a.py:1: txjax.presets has no layer"),
        ("stray.py", "", "stray.py: txjax.stray has no layer"),
        ("data/a.py", "import txjax.store", None),
        ("ops/a.py", "from .masks import Causal\nfrom ..schema import Kind", None),
        ("ops/a.py", "if TYPE_CHECKING:\n    from txjax.config import Config", None),
        ("ops/a.py", "import flaxen", None),
    ],
)
def test_an_import_against_the_order_is_named(tmp_path: Path, file: str, text: str, complaint: str | None):
    where = tmp_path / "txjax" / file
    where.parent.mkdir(parents=True)
    where.write_text(text)
    found = complaints(tmp_path / "txjax")
    if complaint is None:
        assert not found
    else:
        assert len(found) == 1 and complaint in found[0]


def test_neighbours_in_a_layer_make_no_circle(tmp_path: Path):
    for own, other in (("data", "store"), ("store", "data")):
        (tmp_path / "txjax" / own).mkdir(parents=True)
        (tmp_path / "txjax" / own / "a.py").write_text(f"import txjax.{other}")
    assert "circle" in complaints(tmp_path / "txjax")[0]


def test_import_txjax_imports_no_jax():
    code = "import sys, txjax; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "txjax" in loaded
    assert not {"jax", "flax", "numpy", "orbax", "grain"} & set(loaded)
