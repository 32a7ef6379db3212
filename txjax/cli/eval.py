"""Loss and accuracy of a run over the whole of its validation or test split.

txjax eval --workdir=runs/shakespeare --step=best
txjax eval --workdir=runs/shakespeare --split=test
txjax eval --workdir=runs/shakespeare --average=5
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from txjax.cli import steps


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR")
    steps.add_checkpoint(parser)
    parser.add_argument("--split", choices=("validation", "test"), default="validation")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    import jax

    from txjax.cli import refuse
    from txjax.data import dataset
    from txjax.train.evaluate import batches_of, evaluate
    from txjax.train.step import make_evaluation_step

    refuse(rest)
    loaded = steps.load(options.workdir, options)
    examples = dataset.load(loaded.config, loaded.codec).split(options.split)
    step = jax.jit(make_evaluation_step(loaded.model, loaded.config))
    batches = batches_of(examples, loaded.config, 1)
    result = evaluate(step, loaded.params, batches, loaded.model.knobs())
    print(steps.said(loaded, options))
    for name, value in result.figures(options.split, examples.target_bytes(loaded.codec)).items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value:.4f}")
    return 0
