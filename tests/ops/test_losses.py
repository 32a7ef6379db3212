"""Cross-entropy: values against float64, smoothing, weights, and the chunked form that never holds all logits."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_numpy import log_softmax, quick

from txjax.ops import cross_entropy, sum_of_losses
from txjax.ops.losses import correct, sums

LOGITS = np.array([2, 1, 0, -1, 0.5])


@pytest.mark.bug("paiml/aprender#2199", "ml-explore/mlx#166", "pytorch/pytorch#148884", "pytorch/pytorch#73205")
def test_smoothing_spreads_its_mass_over_the_whole_vocabulary():
    logits, target = jnp.asarray(LOGITS, jnp.float32), jnp.array(0)
    log_p = log_softmax(LOGITS)
    smoothed = float(cross_entropy(logits, target, label_smoothing=0.1))
    assert round(smoothed, 4) == 0.7244  # spread over the others alone it would be 0.7624
    np.testing.assert_allclose(smoothed, -0.9 * log_p[0] - 0.1 * log_p.mean(), rtol=1e-6)
    np.testing.assert_allclose(cross_entropy(logits, target), -log_p[0], rtol=1e-6)
    np.testing.assert_allclose(cross_entropy(logits, target, label_smoothing=0.0), -log_p[0], rtol=1e-6)


@pytest.mark.bug("Modalities/modalities#464")
@pytest.mark.parametrize("size", [1.0, 100.0])
def test_the_loss_of_bfloat16_logits_is_float32(size: float):
    logits = jnp.asarray(size * np.random.default_rng(0).standard_normal((20, 50)), jnp.bfloat16)
    targets = jnp.arange(20)
    loss = cross_entropy(logits, targets)
    want = -log_softmax(logits)[np.arange(20), targets]
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(loss, want, rtol=1e-5, atol=1e-5)  # bfloat16 would be off by 4e-3


def test_gradients_are_softmax_less_the_smoothed_target():
    logits = jnp.asarray(np.random.default_rng(1).standard_normal((3, 7)), jnp.float32)
    targets = jnp.array([0, 6, 3])
    gradient = jax.grad(lambda x: cross_entropy(x, targets, label_smoothing=0.2).sum())(logits)
    want = np.exp(log_softmax(logits)) - 0.8 * np.eye(7)[targets] - 0.2 / 7
    np.testing.assert_allclose(gradient, want, atol=1e-6)


# Sums over weighted tokens

B, T, D, V = 2, 9, 4, 11
random = np.random.default_rng(2)
hidden, head = (jnp.asarray(random.standard_normal(s), jnp.float32) for s in [(B, T, D), (D, V)])
targets = jnp.asarray(random.integers(0, V, (B, T)))
weights = jnp.asarray(random.choice([0.0, 0.5, 1.0, 2.0], (B, T)), jnp.float32)


def total(hidden: jax.Array, head: jax.Array, targets=targets, weights=weights, **more: Any) -> jax.Array:
    return sum_of_losses(lambda h: h @ head, hidden, targets, weights, **more)


def test_the_sum_is_that_of_weight_times_loss():
    log_p = log_softmax(np.asarray(hidden, np.float64) @ np.asarray(head, np.float64))
    at_target = np.take_along_axis(log_p, np.asarray(targets)[..., None], -1)[..., 0]
    np.testing.assert_allclose(total(hidden, head), -(np.asarray(weights) * at_target).sum(), rtol=1e-6)


@pytest.mark.bug("huggingface/trl#5575", "NVIDIA-NeMo/Automodel#3907", "Noumena-Network/nmoe#10")
@pytest.mark.bug("linkedin/Liger-Kernel#241")
@pytest.mark.parametrize("chunk", [1, 5, 6, 18, 100])
def test_chunks_of_any_size_give_the_same_sum_and_gradients(chunk: int):
    def run(chunk: int | None) -> Any:
        how: Any = {"label_smoothing": 0.1, "chunk": chunk}
        return quick(jax.value_and_grad(lambda h, w: total(h, w, **how), (0, 1)))(hidden, head)

    (loss, gradients), (want, dense) = run(chunk), run(None)
    np.testing.assert_allclose(loss, want, rtol=1e-6)
    for got, expected in zip(gradients, dense, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.bug("linkedin/Liger-Kernel#241", "huggingface/trl#5575")
def test_chunks_need_a_fraction_of_the_memory_at_a_large_vocabulary():
    vocabulary, tokens, width = 50_000, 512, 8

    def working_memory(chunk: int | None) -> int:
        def loss(hidden: jax.Array, head: jax.Array, targets: jax.Array, weights: jax.Array) -> jax.Array:
            return total(hidden, head, targets, weights, chunk=chunk)

        shapes = [
            jax.ShapeDtypeStruct(shape, dtype)
            for shape, dtype in [
                ((1, tokens, width), jnp.float32),
                ((width, vocabulary), jnp.float32),
                ((1, tokens), jnp.int32),
                ((1, tokens), jnp.float32),
            ]
        ]
        return quick(jax.grad(loss, (0, 1))).lower(*shapes).compile().memory_analysis().temp_size_in_bytes

    assert working_memory(None) >= 4 * tokens * vocabulary  # all logits
    assert working_memory(32) < working_memory(None) / 4


@pytest.mark.bug("jax-ml/jax#17070", "jax-ml/jax#3058")
@pytest.mark.parametrize("chunk", [None, 5])
def test_what_has_no_weight_has_no_part_whatever_it_is(chunk: int | None):
    hopeless = jnp.where(weights[..., None] == 0, 1e30, hidden)  # losses of up to 1e31 there
    other = jnp.where(weights == 0, (targets + 1) % V, targets)
    run = quick(jax.value_and_grad(lambda *a: total(*a, chunk=chunk), (0, 1)))
    want, gradients = run(hidden, head, targets, weights)
    for changed in ((hopeless, head, targets, weights), (hidden, head, other, weights)):
        loss, changed_gradients = run(*changed)
        np.testing.assert_allclose(loss, want, rtol=1e-6)
        for got, expected in zip(changed_gradients, gradients, strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-5)
        assert (np.asarray(changed_gradients[0])[np.asarray(weights) == 0] == 0).all()
    nothing, gradients = run(hidden, head, targets, jnp.zeros_like(weights))
    assert nothing == 0 and all((np.asarray(g) == 0).all() for g in gradients)


# Accuracy


def test_a_token_is_right_where_its_logit_is_largest_and_of_equal_ones_the_first():
    logits = jnp.array([[0.0, 2.0, 1.0], [3.0, 3.0, 0.0], [3.0, 3.0, 0.0], [-1.0, -jnp.inf, -2.0]])
    assert correct(logits, jnp.array([1, 0, 1, 0])).tolist() == [1, 1, 0, 1]
    assert correct(logits.astype(jnp.bfloat16), jnp.array([2, 0, 2, 0])).dtype == jnp.float32


@pytest.mark.parametrize("chunk", [None, 1, 5, 18, 100])
def test_loss_and_accuracy_are_summed_together_whatever_the_chunk(chunk: int | None):
    likely = jnp.argmax(hidden @ head, -1)
    mixed = jnp.where(jnp.arange(T) % 2 == 0, likely, targets)
    run = quick(lambda *a: sums((cross_entropy, correct), lambda h: h @ head, *a, chunk=chunk))
    loss, right = run(hidden, mixed, weights)
    np.testing.assert_allclose(loss, total(hidden, head, mixed), rtol=1e-6)
    assert right == np.asarray(weights)[np.asarray(likely == mixed)].sum()
    assert 0 < right < weights.sum()
