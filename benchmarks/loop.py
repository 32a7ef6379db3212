"""What the training loop costs over the compiled step: fit with everything on against the bare program.

  python benchmarks/loop.py [--steps=20] [--rounds=40]

nanoGPT's CPU recipe (configs/shakespeare_char_cpu.py). Both sides call one program in one process, in turns. The bare
side goes through batches that already lie on the device, and waits at its end. The other is txjax.train.loop.fit with
its data pipeline, progress and metrics (log.every=10, metrics.jsonl and TensorBoard on the disk), up to where it has
fetched the last metrics; evaluation and checkpoints are not in it. Prints a table and one JSON line.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from txjax.cli import prepare_process

prepare_process()  # before anything imports jax

import jax

from txjax.config import Config
from txjax.config.flags import load
from txjax.data import dataset
from txjax.data.pipeline import TrainBatches
from txjax.models import build
from txjax.parallel import make_layout
from txjax.store import Run
from txjax.train.evaluate import Evaluation
from txjax.train.loop import Patience, TakeStep, fit
from txjax.train.meter import Meter
from txjax.train.programs import Programs
from txjax.train.progress import Reporter
from txjax.train.run import new_batches
from txjax.train.state import State
from txjax.train.stop import Stop
from txjax.train.watch import Watch

RECIPE = Path(__file__).parents[1] / "configs" / "shakespeare_char_cpu.py"


class TimedWatch(Watch):
    """A Watch that notes when the last metrics were in, and then neither evaluates nor saves."""

    end = 0.0

    def evaluate(self, step: int, params: Any) -> Evaluation:
        self.end = time.perf_counter()
        return Evaluation(0.0, 0.0, 0)

    def sample(self, step: int, params: Any) -> None: ...

    def save(self, step: int, state: State, data: dict[str, Any], evaluation: Evaluation | None) -> None: ...


def bare(program: Any, hyper: Any, state: State, batches: list[Any]) -> float:
    """Seconds of the program alone."""
    start = time.perf_counter()
    for batch in batches:
        state, metrics = program(state, batch, hyper)
    jax.block_until_ready(metrics)
    return time.perf_counter() - start


def looped(config: Config, take_step: TakeStep, state: State, watch: TimedWatch, batches: TrainBatches) -> float:
    """Seconds of fit, from its first batch to its last metrics."""
    start = time.perf_counter()
    fit(config.train, config.log, state, batches, take_step, watch, Meter(1.0, 1.0, 1), Patience(None), Stop())
    return watch.end - start


def measure(config: Config, folder: str, rounds: int) -> list[tuple[float, float]]:
    """Seconds of both sides in each round; the first round warms up and is left out."""
    data = dataset.load(config)
    config = config.with_vocab(data.codec.vocab_size)
    layout = make_layout(config.mesh)
    programs = Programs(config, build(config.model), layout)
    batches = new_batches(config, data)
    with (
        layout.scope(),
        Run.open(folder, config, fingerprint=batches.fingerprint) as run,
        Reporter(config.train.steps) as report,
        run.checkpoints(keep_last=1) as writer,
        run.metrics(resume_step=None) as metrics,
    ):
        watch = TimedWatch(config, run, data, programs, writer, metrics, report)
        program, seconds = programs.compile_train_step(next(batches))
        report.say(f"compiled in {seconds:.1f} s")

        def take_step(state: State, batch: Any) -> tuple[State, Any]:
            return program(state, programs.to_devices(batch), programs.hyper)

        state = programs.initial_state()
        ready = [jax.block_until_ready(programs.to_devices(next(batches))) for _ in range(config.train.steps)]
        times = []
        for number in range(rounds + 1):
            sides = [
                lambda: bare(program, programs.hyper, copy(state), ready),
                lambda: looped(config, take_step, copy(state), watch, batches),
            ]
            order = (0, 1) if number % 2 else (1, 0)
            seconds_of = {side: sides[side]() for side in order}
            times.append((seconds_of[0], seconds_of[1]))
        return times[1:]


def copy(state: State) -> State:
    return jax.block_until_ready(jax.tree.map(jax.numpy.copy, state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    config = load(str(RECIPE), [f"--config.train.steps={options.steps}", "--config.log.every=10"])
    with tempfile.TemporaryDirectory() as folder:
        times = measure(config, folder, options.rounds)
    ratios = sorted(fit_seconds / bare_seconds for bare_seconds, fit_seconds in times)
    for name, seconds in zip(("compiled step alone", "fit"), zip(*times, strict=True), strict=True):
        milliseconds = [1000 * s / options.steps for s in seconds]
        print(f"{name:20} {statistics.median(milliseconds):8.3f} ms a step, fastest round {min(milliseconds):8.3f}")
    print(f"fit / step alone, {len(ratios)} rounds: {', '.join(f'{ratio:.3f}' for ratio in ratios)}")
    print(json.dumps({"loop_time_ratio_vs_bare_step": round(statistics.median(ratios), 4)}))


if __name__ == "__main__":
    main()
