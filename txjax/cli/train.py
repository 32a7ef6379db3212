"""Train a model from a config file, or go on with a run of the same config.

  txjax train --config=configs/shakespeare_char_cpu.py --workdir=runs/shakespeare
  txjax train --config=my.py --config.train.steps=500 --config.model.position=rope

Exit codes: 0 done, 2 the config, data or folder cannot be used, 1 the run had to stop, 75 stopped by SIGTERM or
Ctrl-C after saving (the same command goes on).

Several processes, each on its own machine or devices, train one model together:

  txjax train --config=FILE.py --workdir=DIR --processes=2 --process=0 --coordinator=HOST:PORT
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, metavar="FILE.py[:ARG]", help="file with a get_config()")
    parser.add_argument("--workdir", metavar="DIR", help="run folder; default runs/NAME-TIME")
    parser.add_argument("--processes", metavar="N|auto", help="processes of this run; auto on Slurm and TPU pods")
    parser.add_argument("--process", type=int, metavar="I", help="the number of this one, from 0")
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 listens")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    import jax

    from txjax.cli import SIGNALLED
    from txjax.config.flags import load
    from txjax.data import dataset
    from txjax.parallel.processes import join_processes
    from txjax.train.run import train_run

    config = load(options.config, rest)
    join_processes(options.coordinator, options.processes, options.process)
    name = Path(options.config.partition(":")[0]).stem
    outcome, folder = train_run(config, dataset.load(config), options.workdir, name=name)
    if jax.process_index() == 0:
        better = {"loss": "lower val/loss", "accuracy": "higher val/accuracy"}[config.train.best_by]
        how = {
            "finished": f"finished at step {outcome.step}",
            "patience": f"stopped at step {outcome.step}: no {better} in {config.train.patience} evaluations",
            "signal": f"stopped by a signal, saved at step {outcome.step}: the same command goes on from there",
        }
        print(how[outcome.reason])
        print(f"run folder  {folder}")
        print(f"curves      tensorboard --logdir={folder}/tb")
        if config.model.encoder is not None:
            print(f"translate   txjax translate --workdir={folder} --from=FILE")
        elif config.model.generates:
            print(f"sample      txjax generate --workdir={folder}")
    return SIGNALLED if outcome.reason == "signal" else 0
