"""What training carries from step to step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.config import Config
from txjax.models import Model
from txjax.nn.context import Knobs
from txjax.ops.pytree import pytree


@pytree
class State:
    """step: updates done, skipped ones included. key: the run's, never consumed: each step folds its number in.
    skipped: steps whose loss, gradient or update was not finite; in_a_row: how many of them are the last ones.
    """

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    key: Array
    skipped: Int[Array, ""]
    in_a_row: Int[Array, ""]

    @property
    def progress(self) -> dict[str, Array]:
        """What a checkpoint holds besides parameters and the optimizer's state."""
        return {"step": self.step, "key": self.key, "skipped": self.skipped, "in_a_row": self.in_a_row}


@pytree
class Hyper:
    """The numbers that are traced, so that a study over them compiles once."""

    learning_rate: Float[Array, ""]
    weight_decay: Float[Array, ""]
    model: Knobs


def hyper(config: Config, model: Model) -> Hyper:
    """The config's numbers as arrays: Python floats would be constants of the program, or weakly typed."""
    return Hyper(
        learning_rate=jnp.asarray(config.optim.learning_rate, jnp.float32),
        weight_decay=jnp.asarray(config.optim.weight_decay, jnp.float32),
        model=model.knobs(),
    )


def initial_state(config: Config, model: Model, params: Any = None, key: Array | None = None) -> State:
    """Everything that a run starts from, as a function of the config alone, or with the weights given.

    key: that of train.seed, where it is to be traced.
    """
    weights, run = jax.random.split(jax.random.key(config.train.seed) if key is None else key)
    params = model.init(weights) if params is None else params
    direction = config.optim.optimizer.direction(model.axes())
    zero = jnp.zeros((), jnp.int32)
    return State(zero, params, direction.init(params), run, zero, zero)
