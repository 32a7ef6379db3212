"""docs/add_a_variant.md, done as it says: a file is added to a copy of the project, and the contract suite tests it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
GUIDE = (PROJECT / "docs" / "add_a_variant.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the guide's file in the place that the guide names."""
    folder = tmp_path_factory.mktemp("contributor")
    for part in ("txjax", "tests", "configs", "scripts", "docs"):
        shutil.copytree(PROJECT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", folder)
    (place,) = re.findall(r"The file is `(.*?)`", GUIDE)
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (folder / place).write_text(code, encoding="utf-8")
    return folder


def run(folder: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(folder), "JAX_PLATFORMS": "cpu"}
    ended = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.mark.long
def test_the_contract_suite_tests_the_new_kind_unasked(copy: Path):
    out = run(copy, "pytest", "tests/contracts", "-q", "-p", "no:cacheprovider", "-m", "", "-k", "squared_relu")
    (passed,) = re.findall(r"(\d+) passed", out)
    assert int(passed) >= 20


@pytest.mark.slow
def test_the_command_line_knows_it(copy: Path):
    (command,) = re.findall(r"^txjax (inspect .*)$", GUIDE, re.MULTILINE)
    out = run(copy, "txjax", *command.split())
    assert "parameters" in out
