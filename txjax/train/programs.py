"""The compiled programs of a run: initial state, train step, evaluation step, each laid out over the mesh."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from jaxtyping import Array

from txjax.batch import Batch
from txjax.config import Config
from txjax.models import Model
from txjax.nn.parameters import path_name
from txjax.parallel import Layout
from txjax.train.state import Hyper, State, hyper, initial_state
from txjax.train.step import StepMetrics, make_evaluation_step, make_train_step


@dataclass(frozen=True)
class Programs:
    """Use inside layout.scope()."""

    config: Config
    model: Model
    layout: Layout

    def check(self) -> None:
        """ConfigError where the mesh does not divide the model."""
        self.layout.parameters(self.model.axes(), self.model.shapes())

    @cached_property
    def hyper(self) -> Hyper:
        return jax.device_put(hyper(self.config, self.model), self.layout.replicated())

    @cached_property
    def state(self) -> State:
        """Shapes, types and shardings of the state."""
        shapes = jax.eval_shape(lambda: initial_state(self.config, self.model))
        parameters = self.layout.parameters(self.model.axes(), shapes.params)
        replicated = self.layout.replicated()
        by_name = {path_name(path): place for path, place in jax.tree_util.tree_leaves_with_path(parameters)}

        def place(path: tuple[Any, ...], leaf: Any) -> jax.ShapeDtypeStruct:
            # an optimizer's moment lies where its parameter does: its path ends in the parameter's
            name = path_name(path)
            mine = (p for n, p in by_name.items() if f"/{name}".endswith(f"/{n}") and leaf.ndim == len(p.spec))
            found = next(mine, replicated)
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=found)

        return jax.tree_util.tree_map_with_path(place, shapes)

    def initial_state(self) -> State:
        places = jax.tree.map(lambda s: s.sharding, self.state)
        start = jax.jit(lambda key: initial_state(self.config, self.model, key=key), out_shardings=places)
        return start(jax.random.key(self.config.train.seed))

    def compile_train_step(
        self, batch: Batch
    ) -> tuple[Callable[[State, Batch, Hyper], tuple[State, StepMetrics]], float]:
        """The train step for batches like this one, and the seconds that compiling took."""
        start = time.perf_counter()
        places = jax.tree.map(lambda s: s.sharding, self.state)
        step = jax.jit(
            make_train_step(self.model, self.config),
            donate_argnums=0,
            out_shardings=(places, self.layout.replicated()),
        )
        compiled = step.lower(self.state, self._shapes(batch), self.hyper).compile()
        return compiled, time.perf_counter() - start

    def to_devices(self, batch: Batch) -> Batch:
        """This process's rows of a batch, as the global array that they are a part of."""
        if jax.process_count() == 1:
            return jax.device_put(batch, self._batch_place)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self._batch_place, x), batch)

    @cached_property
    def _batch_place(self) -> jax.sharding.NamedSharding:
        return self.layout.batch()

    @cached_property
    def evaluation_step(self) -> Callable[[Any, Batch, Any], tuple[Array, Array]]:
        return jax.jit(make_evaluation_step(self.model, self.config), out_shardings=self.layout.replicated())

    def _shapes(self, batch: Batch) -> Batch:
        processes, place = jax.process_count(), self._batch_place
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((x.shape[0] * processes, *x.shape[1:]), x.dtype, sharding=place), batch
        )
