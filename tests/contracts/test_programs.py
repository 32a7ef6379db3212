"""What compiling, scanning and rematerialising keep, whatever the variant."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import jax
import pytest
from harness import assert_close, compiled, decoder, gradient, mean_loss, parameters, primitives
from variants import LAYOUTS, Variant

from txjax.config import Model
from txjax.schema import field_types

pytestmark = pytest.mark.parametrize("variant", LAYOUTS, ids=str, scope="module")


@pytest.mark.bug("jax-ml/jax#2777")
def test_scanned_layers_have_the_values_and_gradients_of_unrolled_ones(variant: Variant):
    forms = [replace(variant.model, unroll=unroll, remat="none") for unroll in (1, "all")]
    scanned, unrolled = (
        compiled(jax.value_and_grad(mean_loss(form)), params)(params) for form in forms if (params := parameters(form))
    )
    assert_close(scanned, unrolled, 1e-6)
    assert_close(scanned, gradient(variant.model), 1e-5)


@pytest.mark.parametrize("policy", [p for p in get_args(field_types(Model)["remat"]) if p != "none"])
def test_rematerialised_layers_have_the_same_gradients(variant: Variant, policy: str):
    if policy != "full" and variant.model.first_layers:
        pytest.skip("policies differ in what is kept: the two bases try each")
    with jax.disable_jit():
        again = jax.value_and_grad(mean_loss(replace(variant.model, remat=policy)))(parameters(variant.model))
    assert_close(again, gradient(variant.model), 1e-6)


@pytest.mark.bug("jax-ml/jax#2777")
def test_the_program_does_not_grow_with_depth(variant: Variant):
    def operations(periods: int) -> int:
        layers = len(variant.model.first_layers) + periods * len(variant.model.pattern)
        model = replace(variant.model, num_layers=layers)
        loss = jax.value_and_grad(mean_loss(model))
        return len(primitives(jax.make_jaxpr(loss)(decoder(model).shapes()).jaxpr))

    assert operations(periods=2) == operations(periods=24)
