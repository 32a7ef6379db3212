"""The rows of a population: states, numbers and batches of several runs as one, each row a member, over the devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from txjax.batch import Batch
from txjax.data.dataset import Dataset
from txjax.data.pipeline import TrainBatches
from txjax.store import Run
from txjax.store.checkpoints import CheckpointWriter
from txjax.train.programs import Programs
from txjax.train.state import Hyper, State, initial_state
from txjax.train.step import StepMetrics, make_train_step

AXIS = "population"


@dataclass(frozen=True)
class Member:
    """A run of a population. programs: of its own config, and of the key that all members share."""

    run: Run
    dataset: Dataset
    programs: Programs
    batches: TrainBatches

    @property
    def name(self) -> str:
        return self.run.folder.name


def by_row(step: Any, row: Any) -> State:
    """One thing for the step, which all members share, and another for what has a row for each of them."""
    return State(step=step, params=row, opt_state=row, key=row, skipped=row, in_a_row=row)


class Group:
    """The rows of a population on their devices, filled up to a multiple of these.

    rows: a row's member, or None: a copy that fills up, one that has diverged, or one that somebody else ended. Such
    a row is computed like the others, and thrown away. An iterator of the members' batches, stacked.
    """

    def __init__(self, programs: Programs, rows: Sequence[Member | None]) -> None:
        devices = programs.layout.mesh.devices.reshape(-1)  # type: ignore[union-attr]
        mesh = Mesh(devices, (AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
        self.programs = programs
        self.saved = len(rows)
        self.rows = [*rows, *[None] * (-len(rows) % len(devices))]
        self.place = NamedSharding(mesh, PartitionSpec(AXIS))
        self.everywhere = NamedSharding(mesh, PartitionSpec())
        self.places = by_row(self.everywhere, self.place)

    @property
    def first(self) -> Member:
        return next(filter(None, self.rows))

    def __next__(self) -> Batch:
        own = [None if member is None else next(member.batches) for member in self.rows]
        filler = next(batch for batch in own if batch is not None)
        return jax.tree.map(lambda *x: np.stack(x), *(filler if batch is None else batch for batch in own))

    def get_state(self) -> dict[str, Any]:
        return {member.name: member.batches.get_state() for member in self.rows if member is not None}

    def begin(self) -> State:
        """Every member's own initial state, drawn as it would be alone: one after another, which keeps its bits."""
        config, model = self.programs.config, self.programs.model
        seeds = [(member or self.first).programs.config.train.seed for member in self.rows]

        def drawn(keys: Any) -> State:
            rows = jax.lax.map(lambda key: initial_state(config, model, key=key), keys)
            return replace(rows, step=rows.step[0])

        keys = jax.numpy.stack([jax.random.key(seed) for seed in seeds])
        return self.programs.once(("states", self.place), lambda: jax.jit(drawn, out_shardings=self.places))(keys)

    def resume(self, writer: CheckpointWriter, step: int) -> State:
        """The state of a checkpoint, also of one that was made on other devices, and the batches set to go on."""

        def shape(leaf: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.saved, *leaf.shape), leaf.dtype, sharding=self.everywhere)

        alone = self.programs.state
        asked = replace(jax.tree.map(shape, alone), step=alone.step)
        saved = writer.restore(step, params=asked.params, opt_state=asked.opt_state, progress=asked.progress)
        for member in filter(None, self.rows):
            member.batches.set_state(saved.data[member.name])
        state = State(params=saved.params, opt_state=saved.opt_state, **saved.progress)
        index = np.array([row if row < self.saved else 0 for row in range(len(self.rows))])
        return self._taken(state, index, self.places)

    def members_only(self, state: State) -> State:
        """Without the rows that fill up: what a checkpoint holds."""
        if self.saved == len(self.rows):
            return state
        return self._taken(state, np.arange(self.saved), self.everywhere)

    def _taken(self, state: State, index: np.ndarray, places: Any) -> State:
        def taken(state: State) -> State:
            return replace(jax.tree.map(lambda x: x[index] if x.ndim else x, state), step=state.step)

        return jax.jit(taken, out_shardings=places)(state)

    def member_state(self, state: State, row: int) -> State:
        """A row as the state of a run of its own."""
        return replace(
            self._row(replace(state, step=None), row, replace(self.programs.state, step=None)), step=state.step
        )

    def member_params(self, params: Any, row: int) -> Any:
        return self._row(params, row, self.programs.state.params)

    def _row(self, tree: Any, row: int, alone: Any) -> Any:
        def make() -> Any:
            places = jax.tree.map(lambda s: s.sharding, alone)
            return jax.jit(lambda tree, row: jax.tree.map(lambda x: x[row], tree), out_shardings=places)

        return self.programs.once(("row", jax.tree.structure(tree)), make)(tree, np.int32(row))

    def compiled(self) -> tuple[Callable[[State, Batch], tuple[State, StepMetrics]], float]:
        """The compiled step of all rows, on host batches like those to come, and the seconds that compiling took."""
        start = [(member, member.batches.get_state()) for member in self.rows if member is not None]
        example = next(self)
        for member, position in start:
            member.batches.set_state(position)
        hypers = [(member or self.first).programs.hyper for member in self.rows]
        hyper = jax.device_put(jax.tree.map(lambda *x: np.stack(x), *hypers), self.place)
        program, seconds = self._program(example, hyper)

        def take_step(state: State, batch: Batch) -> tuple[State, StepMetrics]:
            return program(state, jax.device_put(batch, self.place), hyper)

        return take_step, seconds

    def _program(self, example: Batch, hyper: Hyper) -> tuple[Any, float]:
        start = time.perf_counter()
        rows = len(self.rows)

        def make() -> Any:
            axes = by_row(None, 0)
            step = jax.vmap(make_train_step(self.programs.model, self.programs.config), (axes, 0, 0), (axes, 0))
            alone = self.programs.state
            shapes = jax.tree.map(lambda s: jax.ShapeDtypeStruct((rows, *s.shape), s.dtype, sharding=self.place), alone)
            shapes = replace(shapes, step=jax.ShapeDtypeStruct((), alone.step.dtype, sharding=self.everywhere))
            batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self.place), example)
            program = jax.jit(step, donate_argnums=0, out_shardings=(self.places, self.place))
            return program.lower(shapes, batch, hyper).compile()

        leaves, structure = jax.tree.flatten(example)
        name = ("population", self.place, structure, *((x.shape, str(x.dtype)) for x in leaves))
        return self.programs.once(name, make), time.perf_counter() - start
