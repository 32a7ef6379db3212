"""What training runs at once brings: a population's step against as many steps of one run.

  python benchmarks/population.py [--members=8] [--steps=10] [--rounds=3]

A small GPT, as studies train it, on random tokens of a task. Sequential is one compiled step, called for each member
in turn; the population is the same step vmapped over the members and sharded over the devices. Both go through batches
of their own data pipeline, and wait once a round. Prints seconds a cell and step, the fastest of the rounds, and one
JSON line. On a CPU the population is the slower one, and `txjax ablate` takes it only on accelerators.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from txjax.cli import prepare_process

prepare_process()  # before anything imports jax

import jax

from txjax import presets
from txjax.config import Config, Data, Train
from txjax.data import dataset
from txjax.data.sources.sort import Sort
from txjax.models import build
from txjax.parallel import make_layout
from txjax.schema import with_values
from txjax.train.group import Group, Member
from txjax.train.programs import Programs
from txjax.train.run import new_batches

CONFIG = Config(
    model=presets.gpt2(width=64, num_layers=2, num_heads=2, context=64),
    data=Data(source=Sort(length=31, symbols=16)),
    train=Train(batch_size=16),
)


def members_of(count: int) -> list[Member]:
    data = dataset.load(CONFIG)
    base = CONFIG.with_vocab(data.codec.vocab_size)
    programs = Programs(base, build(base.model), make_layout(base.mesh))
    configs = [with_values(base, {"train.seed": seed}) for seed in range(count)]
    return [Member(None, data, programs.of(config), new_batches(config, data)) for config in configs]  # type: ignore[arg-type]


def sequential(members: list[Member], steps: int) -> tuple[Callable[[], float], float]:
    """A round as a function that gives its seconds, and the seconds that compiling took."""
    first = members[0].programs
    with first.layout.scope():
        step, compiling = first.compile_train_step(next(members[0].batches))
        states = [member.programs.initial_state() for member in members]

    def round_of_steps() -> float:
        start = time.perf_counter()
        for row, member in enumerate(members):
            for _ in range(steps):
                batch = member.programs.to_devices(next(member.batches))
                states[row], metrics = step(states[row], batch, member.programs.hyper)
        jax.block_until_ready((states, metrics))
        return time.perf_counter() - start

    return round_of_steps, compiling


def population(members: list[Member], steps: int) -> tuple[Callable[[], float], float]:
    group = Group(members[0].programs, members)
    step, compiling = group.compiled()
    state: Any = group.begin()

    def round_of_steps() -> float:
        nonlocal state
        start = time.perf_counter()
        for _ in range(steps):
            state, metrics = step(state, next(group))
        jax.block_until_ready((state, metrics))
        return time.perf_counter() - start

    return round_of_steps, compiling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10, help="of each member in a round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sides = {
        "sequential": sequential(members_of(options.members), options.steps),
        "population": population(members_of(options.members), options.steps),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(options.rounds + 1):
        for name, (round_of_steps, _) in sides.items():
            seconds = round_of_steps()
            if number:  # the first warms up
                times[name].append(seconds / options.members / options.steps)
    kind = f"{jax.device_count()} {jax.devices()[0].device_kind}"
    print(f"{options.members} members, {options.steps} steps a round, fastest of {options.rounds} rounds, {kind}")
    for name, (_, compiling) in sides.items():
        print(f"{name:12} {1e3 * min(times[name]):9.3f} ms a cell and step   compiled in {compiling:.1f} s")
    ratio = min(times["population"]) / min(times["sequential"])
    print(json.dumps({"population_time_ratio_vs_sequential": round(ratio, 4)}))


if __name__ == "__main__":
    main()
