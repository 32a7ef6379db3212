"""Loss of a run over its whole validation set.

txjax eval --workdir=runs/shakespeare --step=best
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR")
    parser.add_argument("--step", default="latest", metavar="latest|best|N")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    import jax

    from txjax import api
    from txjax.cli import refuse
    from txjax.cli.steps import which
    from txjax.data import dataset
    from txjax.data.pipeline import evaluation_batches
    from txjax.train.evaluate import evaluate
    from txjax.train.step import make_evaluation_step
    from txjax.train.watch import evaluation_batch_size

    refuse(rest)
    loaded = api.load(options.workdir, which(options.step))
    data = dataset.load(loaded.config, loaded.codec)
    batches = evaluation_batches(
        data.validation,
        batch_size=evaluation_batch_size(loaded.config, 1, len(data.validation)),
        process_index=0,
        process_count=1,
    )
    step = jax.jit(make_evaluation_step(loaded.model, loaded.config))
    result = evaluate(step, loaded.params, batches, loaded.model.knobs())
    print(f"step {loaded.step} of {loaded.folder}")
    for name, value in result.figures(data.validation.target_bytes(loaded.codec)).items():
        print(f"{name:20} {value:,}" if isinstance(value, int) else f"{name:20} {value:.4f}")
    return 0
