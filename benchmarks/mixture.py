"""What a train step of a mixture of experts costs over the dense network with the same products.

  python benchmarks/mixture.py [--experts=8,32] [--rounds=5] [--steps=5]

A GPT of 2 layers, width 256, 128 tokens, batch 16, float32, AdamW. The mixture sends each token to 2 experts of width
512, the dense feed-forward is 1,024 wide: as many products a token. jax is the same mixture over lax.ragged_dot in
place of txjax.ops.moe.ragged, the same loss within 1e-4. All in one process, in an order that turns from round to
round; a round's figure is the median of its steps, compiled before. Ratios are geometric means over rounds, with
Student's 95 % interval on the logarithms. Prints a table and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from _ratio import ratio

from txjax.cli import prepare_process

prepare_process()  # before anything imports jax

import jax  # noqa: E402
import numpy as np  # noqa: E402

from txjax.batch import Batch  # noqa: E402
from txjax.config import Config, Dense, Mixture, Model, Train  # noqa: E402
from txjax.models import build, presets  # noqa: E402
from txjax.ops.moe import dispatch  # noqa: E402
from txjax.parallel import make_layout  # noqa: E402
from txjax.train.programs import Programs  # noqa: E402

ROWS, CONTEXT, VOCAB = 16, 128, 65
BASE = presets.gpt2(256, 2, 4, context=CONTEXT, vocab_size=VOCAB)


def stepper(model: Model) -> tuple[Callable[[], float], float]:
    """A step as a function that gives its seconds, and the loss of the first."""
    config = Config(model=model, train=Train(batch_size=ROWS))
    layout = make_layout(config.mesh, jax.devices()[:1])
    rows = np.random.default_rng(0).integers(0, VOCAB, (ROWS, CONTEXT + 1)).astype(np.int32)
    weights = np.ones((ROWS, CONTEXT), np.float32)
    batch: Any = Batch(tokens=rows[:, :-1], targets=rows[:, 1:], weights=weights)
    with layout.scope():
        programs = Programs(config, build(config.model), layout)
        step, _ = programs.compile_train_step(batch)
        state, batch = programs.initial_state(), programs.to_devices(batch)
        state, metrics = step(state, batch, programs.hyper)

    def timed() -> float:
        nonlocal state
        start = time.perf_counter()
        state, metrics = step(state, batch, programs.hyper)
        jax.block_until_ready((state, metrics))
        return time.perf_counter() - start

    return timed, float(metrics.loss)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experts", type=lambda text: [int(n) for n in text.split(",")], default="8,32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of each side in a round")
    options = parser.parse_args()
    sides = {"dense": stepper(replace(BASE, feedforward=Dense(hidden=1024)))}
    for count in options.experts:
        model = replace(BASE, feedforward=Mixture(num_experts=count, top_k=2, hidden=512))
        sides[f"{count} experts"] = stepper(model)
        with mock.patch.object(dispatch, "ragged", jax.lax.ragged_dot):
            jax.clear_caches()
            sides[f"{count} experts, jax"] = stepper(model)
        losses = [sides[f"{count} experts{which}"][1] for which in ("", ", jax")]
        if not math.isclose(*losses, rel_tol=1e-4):
            raise SystemExit(f"two ways to compute one mixture give two losses: {losses}")
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(options.rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            seconds[name].append(statistics.median(sides[name][0]() for _ in range(options.steps)))
    for name, times in seconds.items():
        print(f"{name:20} {1e3 * statistics.median(times):8.1f} ms a step")
    line: dict[str, Any] = {}
    for count in options.experts:
        own = seconds[f"{count} experts"]
        line |= ratio(own, seconds["dense"]).entries(f"step_time_ratio_vs_dense_{count}_experts")
        line |= ratio(seconds[f"{count} experts, jax"], own).entries(f"speedup_vs_ragged_dot_{count}_experts")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
