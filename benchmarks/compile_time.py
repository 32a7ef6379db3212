"""How the time to compile a train step grows with depth: 48 layers against 4.

  python benchmarks/compile_time.py [--rounds=5] [--unrolled]

The GPT of train_step.py: width 128, 4 heads, 128 tokens, batch 16, float32, AdamW, clipping. Tracing, lowering and
compiling, as `txjax train` does it, without caches, the depths in turns within one process; the first round warms up
and is left out. A ratio compares the compilations of a round: its geometric mean over rounds, with Student's 95 %
interval on the logarithms. --unrolled adds layers that are laid out one by one, for 4 and 12 of them. Prints a table
and one JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any, NamedTuple

import jax
import numpy as np
from _ratio import ratio

from txjax.batch import Batch
from txjax.cli import prepare_process
from txjax.config import Config, Train
from txjax.models import build, presets
from txjax.parallel import make_layout
from txjax.train.programs import Programs

CONTEXT, ROWS, VOCAB = 128, 16, 65


class Form(NamedTuple):
    """A depth, and how its layers stand in the program."""

    layers: int
    unroll: Any

    def __str__(self) -> str:
        return f"{self.layers} layers, {'unrolled' if self.unroll == 'all' else 'scanned'}"


def compile_once(form: Form) -> float:
    """Seconds to compile the step of this form from nothing."""
    jax.clear_caches()
    model = presets.gpt2(128, form.layers, 4, context=CONTEXT, vocab_size=VOCAB, unroll=form.unroll)
    config = Config(model=model, train=Train(batch_size=ROWS))
    layout = make_layout(config.mesh, jax.devices()[:1])
    rows = np.zeros((ROWS, CONTEXT), np.int32)
    with layout.scope():
        programs = Programs(config, build(config.model), layout)
        return programs.compile_train_step(Batch(tokens=rows, targets=rows))[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--unrolled", action="store_true", help="layers one by one, too: slow to compile")
    options = parser.parse_args()
    prepare_process()
    jax.config.update("jax_enable_compilation_cache", False)
    pairs = {"compile_time_ratio_48_vs_4_layers": (Form(48, 1), Form(4, 1))}
    if options.unrolled:
        pairs["compile_time_ratio_12_vs_4_layers_unrolled"] = (Form(12, "all"), Form(4, "all"))
    forms = [form for pair in pairs.values() for form in reversed(pair)]
    rounds: list[dict[Form, float]] = []
    for number in range(options.rounds + 1):
        rounds.append({form: compile_once(form) for form in (forms if number % 2 else reversed(forms))})
    seconds = {form: [one[form] for one in rounds[1:]] for form in forms}
    print(f"{'form':24} {'median s':>9} {'fastest':>8}")
    for form, times in seconds.items():
        print(f"{form!s:24} {statistics.median(times):9.2f} {min(times):8.2f}")
    line: dict[str, Any] = {}
    for name, (over, under) in pairs.items():
        line |= ratio(seconds[over], seconds[under]).entries(name)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
