"""Train a small GPT on the interpreter's own documentation and source, and show what it has learned.

A few minutes on two cores; nothing is downloaded. This file is also a config file to copy:

  txjax train --config=txjax/cli/demo.py --config.train.steps=2000
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txjax.config import Config


def get_config() -> Config:
    from txjax.config import BPE, Config, Cosine, Data, Log, Optim, Train
    from txjax.models import presets

    return Config(
        model=presets.gpt2(width=128, num_layers=4, num_heads=4, context=128),
        data=Data(source="python", tokenizer=BPE(vocab_size=1024)),  # type: ignore[arg-type]
        optim=Optim(learning_rate=3e-3, schedule=Cosine(warmup=50, final=0.1)),
        train=Train(steps=600, batch_size=16, evaluate_every=300, checkpoint_every=300),
        log=Log(every=20, prompt="def ", sample_tokens=120),
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", metavar="DIR", help="run folder; default runs/demo-TIME")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import SIGNALLED
    from txjax.config.flags import override
    from txjax.data import dataset
    from txjax.store import Run
    from txjax.train.run import train_run
    from txjax.view.curves import draw_run

    config = override(get_config(), rest)
    outcome, folder = train_run(config, dataset.load(config), options.workdir, name="demo")
    if outcome.reason == "signal":
        return SIGNALLED
    result = Run.read(folder)
    show_samples(result, outcome.step)
    picture = draw_run(result, result.folder / "run.png")
    print(f"run folder  {folder}")
    print(f"picture     {picture}")
    print(f"curves      tensorboard --logdir={result.tensorboard}   then open http://localhost:6006")
    print(f'more text   txjax generate --workdir={folder} --prompt="class "')
    return 0


def show_samples(run: object, last: int) -> None:
    """The text of step 0 beside that of the end."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from txjax.store import Run

    assert isinstance(run, Run)
    table = Table("step 0", f"step {last}", expand=True)
    table.add_row(*(Text((run.samples / f"{step}.txt").read_text(encoding="utf-8")) for step in (0, last)))
    Console().print(table)
