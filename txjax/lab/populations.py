"""Cells trained together: those of one program, with batches of one shape, as populations."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from txjax.config import Config
from txjax.lab.cells import Cell, Result
from txjax.lab.timing import fastest
from txjax.lab.trainer import Stopped
from txjax.schema import ConfigError
from txjax.store import Run
from txjax.train.group import Group, Member
from txjax.train.population import members_at_once, saved_names, train_population
from txjax.train.run import last_parameters, new_batches

if TYPE_CHECKING:
    from txjax.lab.execution import Execution

SAVE_EVERY = 500  # steps between checkpoints of a population


@dataclass(frozen=True)
class Populations:
    """Trains cells of an execution in populations, each kept in populations/DIGEST beside the cells while it trains."""

    execution: Execution

    @property
    def folder(self) -> Path:
        return self.execution.folder.parent / "populations"

    def train(self, waiting: Sequence[Cell]) -> list[Cell]:
        """Train what can be trained together; returns the cells that are left to be trained alone.

        Raises Stopped after a signal, with the population saved.
        """
        waves, alone = self.plan(waiting)
        for wave in waves:
            alone += self.attempt(wave)
        return alone

    def plan(self, waiting: Sequence[Cell]) -> tuple[list[list[Cell]], list[Cell]]:
        """What is trained at once, population by population, and what is left to be trained alone."""
        alone, alike = [], defaultdict(list)
        for cell in waiting:
            if self.is_alone(cell):
                alone.append(cell)
            else:
                alike[self.key(cell)].append(cell)
        waves = [wave for cells in alike.values() for wave in self.waves(cells)]
        single = [wave for wave in waves if len(wave) == 1 and not self.of(wave).is_dir()]
        return [wave for wave in waves if wave not in single], alone + [cell for (cell,) in single]

    def seconds_a_step(self, wave: Sequence[Cell]) -> tuple[float, float]:
        """Seconds to compile the step of a whole wave, and the fastest of a few of them."""
        members = []
        for cell in wave:
            data = self.execution.data(cell.config)
            programs = self.execution.program(cell.config, data)
            # without a run: nothing is written while it is priced
            members.append(Member(cast(Run, None), data, programs, new_batches(programs.config, data)))
        group = Group(members[0].programs, members)
        take_step, compiling = group.compiled()
        return compiling, fastest(take_step, group.begin(), group)

    def is_alone(self, cell: Cell) -> bool:
        """Whether the cell has got somewhere by itself, starts from other weights, may end before the others, needs
        devices of its own, or has batches of several widths, in an order of its own.
        """
        config = cell.config
        begun = (self.execution.folder / cell.id / "config.json").is_file() and Run.read(
            self.execution.folder / cell.id
        ).saved.latest() is not None
        split = config.mesh.fsdp != 1 or config.mesh.tensor != 1
        warm = config.train.init_from is not None
        widths = self.execution.data(config).train.buckets is not None
        return begun or warm or split or widths or config.train.patience is not None or config.log.profile is not None

    def key(self, cell: Cell) -> tuple[str, tuple[str, ...]]:
        """Equal for cells that can be trained together: one step, one rhythm of logging, batches of one shape."""
        data = self.execution.data(cell.config)
        programs = self.execution.program(cell.config, data)
        return rhythm(programs.config), data.train.fields

    def waves(self, cells: list[Cell]) -> Iterator[list[Cell]]:
        """First the populations that were cut short, then new ones of as many members as fit."""
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            names = set(saved_names(folder))
            begun = [cell for cell in cells if cell.id in names]
            if begun:
                cells = [cell for cell in cells if cell.id not in names]
                yield begun
        if cells:
            data = self.execution.data(cells[0].config)
            size = members_at_once(self.execution.program(cells[0].config, data)) or len(cells)
            yield from (cells[start : start + size] for start in range(0, len(cells), size))

    def attempt(self, wave: list[Cell]) -> list[Cell]:
        """Train a wave; where it fails as a whole, its cells are left to be trained alone."""
        self.execution.watcher.say(f"training    {len(wave)} cells at once")
        try:
            self.train_wave(wave)
        except (ConfigError, Stopped):
            raise
        except Exception as error:
            why = str(error).strip().splitlines() or [type(error).__name__]
            self.execution.watcher.say(f"training    failed at once, so one after another: {why[0]}")
            shutil.rmtree(self.of(wave), ignore_errors=True)
            return self.execution.missing(wave)
        return []

    def train_wave(self, wave: list[Cell]) -> None:
        execution, start = self.execution, time.perf_counter()
        by_name, folder, lost = {cell.id: cell for cell in wave}, self.of(wave), set()

        def seconds() -> float:
            return (time.perf_counter() - start) / len(wave)

        def diverged(member: Member, step: int) -> None:
            lost.add(member.name)
            trivial = member.dataset.trivial_loss()
            execution.keep(by_name[member.name], Result("diverged", step, seconds(), trivial=trivial))

        with contextlib.ExitStack() as stack:
            members = [self.member(cell, stack) for cell in wave]
            how = train_population(members, folder, save_every=SAVE_EVERY, stop=execution.stop, diverged=diverged)
            if how == "signal":
                raise Stopped
            for member in members:
                if member.name not in lost:
                    self.finish(by_name[member.name], member, seconds())
        shutil.rmtree(folder, ignore_errors=True)

    def finish(self, cell: Cell, member: Member, seconds: float) -> None:
        programs, data = member.programs, member.dataset
        with programs.layout.scope():
            figures = self.execution.figures(last_parameters(member.run, programs), programs, data)
        steps = programs.config.train.steps
        self.execution.keep(cell, Result("finished", steps, seconds, figures, data.trivial_loss()))

    def member(self, cell: Cell, stack: contextlib.ExitStack) -> Member:
        data = self.execution.data(cell.config)
        programs = self.execution.program(cell.config, data)
        batches = new_batches(programs.config, data)
        folder = self.execution.folder / cell.id
        run = stack.enter_context(Run.open(folder, programs.config, fingerprint=batches.fingerprint))
        return Member(run, data, programs, batches)

    def of(self, wave: Sequence[Cell]) -> Path:
        """The folder of a wave: the one that it was cut short in, or one of its own."""
        names = {cell.id for cell in wave}
        for folder in self.folder.iterdir() if self.folder.is_dir() else ():
            if names <= set(saved_names(folder)):
                return folder
        return self.folder / hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:10]


def rhythm(config: Config) -> str:
    """The config without what members of a population may differ in: traced numbers, the seed, and the data."""
    return dataclasses.replace(
        config,
        model=config.model.structure,
        optim=dataclasses.replace(config.optim, learning_rate=1.0, weight_decay=1.0),
        train=dataclasses.replace(config.train, seed=0, data_stream=0),
        data=dataclasses.replace(Config().data, context=config.context),
    ).digest()
