"""The train step and the evaluation step: pure functions, to be compiled once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from txjax.batch import Batch
from txjax.config import Config
from txjax.models import Model
from txjax.ops.losses import correct, cross_entropy, sum_of_losses, sums
from txjax.ops.pytree import pytree
from txjax.train.optimizers import scales_of, update
from txjax.train.state import Hyper, State


@pytree
class StepMetrics:
    """Of one step, all float32: loss in nats a token, tokens counted in it, norms over all parameters. more: what the
    model's layers say of themselves, by name: losses of their own, a token, and figures.
    """

    loss: Array
    tokens: Array
    grad_norm: Array
    update_norm: Array
    param_norm: Array
    learning_rate: Array
    skipped: Array
    in_a_row: Array
    more: dict[str, Array] = field(default_factory=dict)


def make_train_step(model: Model, config: Config) -> Callable[[State, Batch, Hyper], tuple[State, StepMetrics]]:
    """One optimizer step over a whole batch.

    The loss is a sum over weighted tokens, added over micro-batches (and devices) and divided once by the sum of
    weights, so that neither changes it. A step whose loss, gradient or update is not finite leaves parameters and
    optimizer as they were; whether that ends the run is the loop's to say.
    """
    train, optim = config.train, config.optim
    direction = optim.optimizer.direction(model.axes())
    scales = scales_of(optim, config.model, model.shapes())

    def loss_sum(params: Any, batch: Batch, knobs: Any, key: Array) -> tuple[Array, Byproducts]:
        outputs = model.apply(params, batch, knobs=knobs, key=key, unembed=False)
        loss = sum_of_losses(
            lambda hidden: model.unembed(params, hidden),
            outputs.hidden,
            batch.targets,
            batch.weights,
            label_smoothing=train.label_smoothing,
            chunk=train.loss_chunk,
        )
        return sum(outputs.aux.values(), loss), Byproducts(outputs.aux, outputs.figures, outputs.updates)

    gradient_sum = summed_gradient(loss_sum, train.accumulation)

    def train_step(state: State, batch: Batch, hyper: Hyper) -> tuple[State, StepMetrics]:
        if batch.weights is None:
            batch = dataclasses.replace(batch, weights=jnp.ones(batch.targets.shape, jnp.float32))
        key = jax.random.fold_in(state.key, state.step)
        total, gradients, by = gradient_sum(state.params, batch, hyper.model, key)
        tokens = batch.weights.sum()
        share = 1.0 / jnp.maximum(tokens, 1e-9)
        gradients = jax.tree.map(lambda g: g * share, gradients)
        grad_norm = optax.tree.norm(gradients)
        rate = hyper.learning_rate * optim.schedule.factor(state.step, train.steps)
        change, opt_state = update(
            optim, direction, scales, gradients, state.opt_state, state.params, rate, hyper.weight_decay, grad_norm
        )
        update_norm = optax.tree.norm(change)
        finite = jnp.isfinite(total) & jnp.isfinite(grad_norm) & jnp.isfinite(update_norm)
        params = replaced(jax.tree.map(jnp.add, state.params, change), by.updates)
        params, opt_state = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), (params, opt_state), (state.params, state.opt_state)
        )
        bad = (~finite).astype(jnp.int32)
        in_a_row = (state.in_a_row + 1) * bad
        after = State(state.step + 1, params, opt_state, state.key, state.skipped + bad, in_a_row)
        metrics = StepMetrics(
            total * share, tokens, grad_norm, update_norm, optax.tree.norm(params), rate,
            after.skipped, in_a_row, {name: value * share for name, value in by.losses.items()} | by.figures,
        )  # fmt: skip
        return after, metrics

    return train_step


def summed_gradient(
    loss_sum: Callable[[Any, Batch, Any, Array], tuple[Array, Byproducts]], parts: int
) -> Callable[[Any, Batch, Any, Array], tuple[Array, Any, Byproducts]]:
    """The loss, its gradient and the byproducts of a batch, computed in so many micro-batches one after the other."""
    gradient = jax.value_and_grad(loss_sum, has_aux=True)

    def whole(params: Any, batch: Batch, knobs: Any, key: Array) -> tuple[Array, Any, Byproducts]:
        (loss, by), gradients = gradient(params, batch, knobs, key)
        return loss, gradients, by

    def cut(params: Any, batch: Batch, knobs: Any, key: Array) -> tuple[Array, Any, Byproducts]:
        def add(so_far: tuple[Array, Any], piece: tuple[Batch, Array]) -> tuple[tuple[Array, Any], Byproducts]:
            part, number = piece
            loss, gradients, by = whole(params, part, knobs, jax.random.fold_in(key, number))
            return jax.tree.map(jnp.add, so_far, (loss, gradients)), by

        zero = (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params))
        micro = jax.tree.map(lambda x: _split(x, parts), batch)
        (loss, gradients), by = jax.lax.scan(add, zero, (micro, jnp.arange(parts)))
        mean, losses = jax.tree.map(lambda x: x.mean(0), by), jax.tree.map(lambda x: x.sum(0), by.losses)
        return loss, gradients, mean._replace(losses=losses)

    return whole if parts == 1 else cut


class Byproducts(NamedTuple):
    """What a pass gives beside its loss: see txjax.models.Outputs. Of micro-batches: the sum of losses, and the means
    of figures and updates.
    """

    losses: dict[str, Array]
    figures: dict[str, Array]
    updates: Any


def replaced(params: Any, updates: Any) -> Any:
    """The parameters' tree with the leaves of another one, a part of it, in their place."""
    if not isinstance(updates, Mapping):
        return updates
    return {**params, **{name: replaced(params[name], inner) for name, inner in updates.items()}}


class Sums(NamedTuple):
    """Over the scored tokens of a batch: their losses, how many are right, and their weights."""

    loss: Array
    correct: Array
    weight: Array


def make_evaluation_step(model: Model, config: Config) -> Callable[[Any, Batch, Any], Sums]:
    """The sums of a batch, without smoothing and dropout."""

    def evaluation_step(params: Any, batch: Batch, knobs: Any) -> Sums:
        outputs = model.apply(params, batch, knobs=knobs, unembed=False)
        weights = jnp.ones(batch.targets.shape, jnp.float32) if batch.weights is None else batch.weights
        loss, right = sums(
            (cross_entropy, correct),
            lambda hidden: model.unembed(params, hidden),
            outputs.hidden,
            batch.targets,
            weights,
            chunk=config.train.loss_chunk,
        )
        return Sums(loss, right, weights.sum())

    return evaluation_step


def _split(x: Array, parts: int) -> Array:
    """(B, ...) as (parts, B / parts, ...): part i takes rows i, i + parts, ..., so that no row changes its device."""
    return x.reshape(x.shape[0] // parts, parts, *x.shape[1:]).swapaxes(0, 1)
