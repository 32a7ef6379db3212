"""A population: runs of one program trained at once, by the train step vmapped over them and sharded over the devices.

Each member reads its own data and writes its own folder, with the rows and names that it would have alone. One that
diverges is let go and touches no other. All of them are at one step, and one checkpoint holds them while they train.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import jax

from txjax.models.costs import memory
from txjax.store.checkpoints import CheckpointWriter
from txjax.store.layout import complete_steps, read_meta
from txjax.train.evaluate import Evaluation
from txjax.train.group import Group, Member
from txjax.train.hardware import peak_flops
from txjax.train.loop import Outcome, Patience, TrainingStopped, fit, judge
from txjax.train.meter import Interval, Meter
from txjax.train.programs import Programs
from txjax.train.progress import Reporter
from txjax.train.state import State
from txjax.train.step import StepMetrics
from txjax.train.stop import Stop
from txjax.train.watch import Watch

FULL = 0.6  # of a device's memory, up to which members are put on it


def train_population(
    members: Sequence[Member], folder: Path, *, save_every: int, stop: Stop, diverged: Callable[[Member, int], None]
) -> Literal["finished", "signal"]:
    """Train runs that have no checkpoint of their own yet, from where the population has got to in `folder`.

    Those that reach the end have their last checkpoint in their own folders; `diverged` is told of the others, and of
    the step, as soon as it is seen. save_every: steps between checkpoints of the whole population. After a signal it is
    saved, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(CheckpointWriter(folder, keep_last=1))
        latest = writer.latest()
        names = [member.name for member in members] if latest is None else saved_names(folder)
        by_name = {member.name: member for member in members}
        group = Group(members[0].programs, [by_name.get(name) for name in names])
        state = group.begin() if latest is None else group.resume(writer, latest)
        watch = GroupWatch(group, names, writer, diverged)
        for member in filter(None, group.rows):
            watch.add(stack, member, latest)
        take_step, seconds = group.compiled()
        watch.once("train/compile_seconds", seconds)
        if latest is None:
            watch.sample(0, state.params)
            watch.probe(0, state.params)
        try:
            return _fit(group, state, take_step, watch, save_every, stop).reason  # type: ignore[return-value]
        except Emptied:
            return "finished"


def _fit(group: Group, state: State, take_step: Any, watch: GroupWatch, save_every: int, stop: Stop) -> Outcome:
    config = group.programs.config
    meter = GroupMeter(
        group.programs.flops_per_token,
        config.log.peak_flops or peak_flops(),
        jax.device_count(),
        measured=watch.measured_in,
    )
    train = replace(config.train, checkpoint_every=save_every)
    return fit(train, config.log, state, group, take_step, watch, meter, Patience(None), stop)


class Emptied(TrainingStopped):
    """Every member has diverged."""


def saved_names(folder: Path) -> list[str]:
    """The members of the population in a folder, in the order of their rows; none where it has no checkpoint."""
    steps = complete_steps(folder)
    return read_meta(folder / str(steps[-1]))["meta"]["members"] if steps else []


def members_at_once(programs: Programs) -> int | None:
    """How many fit into the devices' memory together, or None where these do not say how much they have."""
    devices = list(programs.layout.mesh.devices.flat)  # type: ignore[union-attr]
    limit = (devices[0].memory_stats() or {}).get("bytes_limit")
    if limit is None:
        return None
    return len(devices) * max(1, int(FULL * limit / sum(memory(programs.model, programs.config).values())))


@dataclass
class GroupMeter(Meter):
    """A Meter of stacked metrics: it tells `measured` of each row's intervals, and itself has none."""

    measured: Callable[[int, Interval], None] = field(kw_only=True)

    def _fetch(self, *intervals: list[tuple[int, StepMetrics]]) -> list[Interval]:
        fetched, seconds = self._read(intervals)
        for row in range(len(fetched[0][0][1].loss) if fetched else 0):
            own = [[(step, jax.tree.map(itemgetter(row), m)) for step, m in interval] for interval in fetched]
            for interval in self._intervals(own, seconds):
                self.measured(row, interval)
        return []


@dataclass
class GroupWatch:
    """The Observer of a population: a Watch of each member, and the checkpoints of all of them."""

    group: Group
    names: Sequence[str]
    writer: CheckpointWriter
    diverged: Callable[[Member, int], None]
    watches: dict[str, Watch] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def add(self, stack: contextlib.ExitStack, member: Member, latest: int | None) -> None:
        run, config = member.run, member.programs.config
        writer = stack.enter_context(run.checkpoints(keep_last=config.train.keep_last))
        metrics = stack.enter_context(run.metrics(resume_step=latest))
        if latest is None:
            member.dataset.codec.save(run.tokenizer)
        report = Reporter(config.train.steps, quiet=True)
        self.watches[member.name] = Watch(config, run, member.dataset, member.programs, writer, metrics, report)

    def once(self, name: str, value: float) -> None:
        for watch in self.watches.values():
            watch.once[name] = value

    def living(self) -> list[tuple[int, str, Watch]]:
        return [(row, m.name, self.watches[m.name]) for row, m in enumerate(self.group.rows) if m is not None]

    def measured_in(self, row: int, interval: Interval) -> None:
        """A row's interval. Raises Emptied where the last member is lost over it."""
        member = self.group.rows[row]
        if member is None:
            return
        watch = self.watches[member.name]
        watch.measured(interval)
        try:
            judge(watch.config.train, interval)
        except TrainingStopped as stopped:
            watch.metrics.close()
            self.group.rows[row] = None
            self.diverged(member, stopped.step)
            if not any(self.group.rows):
                raise Emptied(stopped.step, "every member has diverged") from None

    def stepped(self, step: int) -> None: ...
    def measured(self, interval: Interval) -> None: ...

    def evaluate(self, step: int, params: Any) -> Evaluation:
        for row, name, watch in self.living():
            own = self.group.member_params(params, row)
            with watch.programs.layout.scope():
                self.evaluations[name] = watch.evaluate(step, own)
        return Evaluation(math.nan, math.nan, 0)  # of a population there is none

    def sample(self, step: int, params: Any) -> None:
        for row, _, watch in self.living():
            if watch.config.log.sample_tokens:
                own = self.group.member_params(params, row)
                with watch.programs.layout.scope():
                    watch.sample(step, own)

    def probe(self, step: int, params: Any) -> None:
        for row, _, watch in self.living():
            if watch.config.log.probes:
                own = self.group.member_params(params, row)
                with watch.programs.layout.scope():
                    watch.probe(step, own)

    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None:
        """At the last step a checkpoint in each member's folder, before it one of all of them together."""
        if step == self.group.programs.config.train.steps:
            for row, name, watch in self.living():
                watch.save(step, self.group.member_state(state, row), data[name], self.evaluations[name])
            return
        for _, _, watch in self.living():
            watch.metrics.flush()
        saved = self.group.members_only(state)
        self.writer.save(
            step,
            params=saved.params,
            opt_state=saved.opt_state,
            progress=saved.progress,
            data=data,
            meta={"members": list(self.names)},
        )
