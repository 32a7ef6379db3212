"""Train a model from a config file, or go on with a run of the same config.

  txjax train --config=configs/shakespeare_char_cpu.py --workdir=runs/shakespeare
  txjax train --config=my.py --config.train.steps=500 --config.model.position=rope

Exit codes: 0 done, 2 the config, data or folder cannot be used, 1 the run had to stop, 75 stopped by SIGTERM after
saving (the same command goes on).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, metavar="FILE.py[:ARG]", help="file with a get_config()")
    parser.add_argument("--workdir", metavar="DIR", help="run folder; default runs/NAME-TIME")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import SIGNALLED
    from txjax.config.flags import load
    from txjax.data import dataset
    from txjax.train.run import train_run

    config = load(options.config, rest)
    name = Path(options.config.partition(":")[0]).stem
    data = dataset.load(config)
    outcome, folder = train_run(config, data, options.workdir, name=name)
    print(f"{outcome.reason} at step {outcome.step}: {folder}")
    print(f"curves: tensorboard --logdir={folder}/tb")
    return SIGNALLED if outcome.reason == "signal" else 0
