"""Activations against their formulas."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from txjax.ops.activations import ACTIVATIONS

GATES, INPUTS = (x.ravel() for x in np.meshgrid(np.linspace(-12, 12, 49), np.linspace(-12, 12, 49)))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def clamped(gate: np.ndarray, x: np.ndarray) -> np.ndarray:
    """As OpenAI's model card of gpt-oss says it: SwiGLU with clamping and a residual connection."""
    gate, x = np.where(gate > 7, 7, gate), np.where(np.abs(x) > 7, 7 * np.sign(x), x)
    swish = gate * sigmoid(1.702 * gate)
    return swish * x + swish


@pytest.mark.parametrize(
    ("name", "formula"), [("swiglu", lambda gate, x: gate * sigmoid(gate) * x), ("swiglu_clamped", clamped)]
)
def test_gated_ones_are_their_formulas(name: str, formula):
    function, gated = ACTIVATIONS[name]
    assert gated
    np.testing.assert_allclose(function(GATES, INPUTS), formula(GATES, INPUTS), rtol=1e-5, atol=1e-6)


def test_a_clamped_one_is_bounded_and_moves_nothing_beyond():
    function, _ = ACTIVATIONS["swiglu_clamped"]
    assert np.abs(function(1e3 * GATES, 1e3 * INPUTS)).max() <= 56
    of_gate, of_x = jax.grad(function, (0, 1))(8.0, 1.0), jax.grad(function, (0, 1))(1.0, -8.0)
    assert of_gate[0] == 0 and of_gate[1] != 0
    assert of_x[1] == 0 and of_x[0] != 0
