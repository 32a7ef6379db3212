"""The compiled programs of a run: initial state, train step, evaluation step, each laid out over the mesh."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax

from txjax.batch import Batch
from txjax.config import Config
from txjax.models import Model, build
from txjax.models.costs import train_flops_per_token
from txjax.nn.parameters import path_name
from txjax.parallel import Layout
from txjax.train.state import Hyper, State, hyper, initial_state
from txjax.train.step import StepMetrics, Sums, make_evaluation_step, make_train_step


@dataclass(frozen=True)
class Programs:
    """Use inside layout.scope()."""

    config: Config
    model: Model
    layout: Layout
    _made: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def of(self, config: Config) -> Programs:
        """The same programs, compiled once, with another config's numbers and seed: its `program_key` is the same."""
        assert program_key(config) == program_key(self.config)
        return dataclasses.replace(self, config=config, model=build(config.model))

    def once(self, name: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made at the first call for this name by any Programs of the same key."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def check(self) -> None:
        """ConfigError where the mesh does not divide the model."""
        self.layout.parameters(self.model.axes(), self.model.shapes())

    @property
    def flops_per_token(self) -> float:
        """Of training, at the config's context."""
        return self.once("flops", lambda: train_flops_per_token(self.model, self.config.context))

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
        def make() -> Any:
            places = jax.tree.map(lambda s: s.sharding, self.state)
            return jax.jit(lambda key: initial_state(self.config, self.model, key=key), out_shardings=places)

        return self.once("initial state", make)(jax.random.key(self.config.train.seed))

    def compile_train_step(
        self, batch: Batch
    ) -> tuple[Callable[[State, Batch, Hyper], tuple[State, StepMetrics]], float]:
        """The train step for batches like this one, and the seconds that compiling took."""
        start = time.perf_counter()
        shapes = self._shapes(batch)

        def make() -> Any:
            places = jax.tree.map(lambda s: s.sharding, self.state)
            step = jax.jit(
                make_train_step(self.model, self.config),
                donate_argnums=0,
                out_shardings=(places, self.layout.replicated()),
            )
            return step.lower(self.state, shapes, self.hyper).compile()

        leaves, structure = jax.tree.flatten(shapes)
        compiled = self.once(("train step", structure, *((s.shape, str(s.dtype)) for s in leaves)), make)
        return compiled, time.perf_counter() - start

    def to_devices(self, batch: Batch) -> Batch:
        """This process's rows of a batch, as the global array that they are a part of."""
        if jax.process_count() == 1:
            return jax.device_put(batch, self._batch_place)
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self._batch_place, x), batch)

    @cached_property
    def _batch_place(self) -> jax.sharding.NamedSharding:
        return self.layout.batch()

    @property
    def evaluation_step(self) -> Callable[[Any, Batch, Any], Sums]:
        def make() -> Any:
            return jax.jit(make_evaluation_step(self.model, self.config), out_shardings=self.layout.replicated())

        return self.once("evaluation step", make)

    def _shapes(self, batch: Batch) -> Batch:
        processes, place = jax.process_count(), self._batch_place
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((x.shape[0] * processes, *x.shape[1:]), x.dtype, sharding=place), batch
        )


def program_key(config: Config) -> str:
    """Ten hexadecimal digits, equal for configs whose steps are one program.

    Left out is what is traced (learning rate, weight decay, attention scale, the rate of dropout where it is on, the
    seed), what the host alone reads, and the data, which a program knows by its shapes.
    """
    train, plain = config.train, Config()
    return dataclasses.replace(
        config,
        model=config.model.structure,
        optim=dataclasses.replace(config.optim, learning_rate=1.0, weight_decay=1.0),
        train=dataclasses.replace(
            train,
            seed=0,
            data_stream=0,
            init_from=None,
            evaluate_every=None,
            evaluate_batch_size=None,
            checkpoint_every=None,
            best_by="loss",
            keep_last=1,
            patience=None,
            non_finite="stop",
            max_skips=1,
        ),
        data=dataclasses.replace(plain.data, context=config.context),
        log=plain.log,
    ).digest()
