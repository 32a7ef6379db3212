"""What a config is and what it costs, before anything runs: nothing is compiled, and no data is read.

txjax inspect --config=configs/gpt2_small.py
txjax inspect --config=configs/gpt2_small.py --config.model.num_layers=7
txjax inspect --preset=gpt3-175b
txjax inspect --config=a.py --diff=b.py     what differs: settings, parameters, operations of the train step, FLOPs
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txjax.config import Config


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE.py[:ARG]")
    parser.add_argument("--diff", metavar="OTHER.py[:ARG]", help="another config file, to show what differs")
    parser.add_argument("--preset", metavar="NAME", help="a published size instead of a config file")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from rich.console import Console

    from txjax.config import Config
    from txjax.config.flags import load, override
    from txjax.models import presets
    from txjax.schema import ConfigError

    if (options.config is None) == (options.preset is None):
        raise ConfigError("txjax inspect needs --config=FILE.py or --preset=NAME, and not both")
    if options.config is not None:
        config = load(options.config, rest)
    else:
        config = override(Config(model=presets.named(options.preset)), rest)
    console = Console(highlight=False, soft_wrap=True)
    if options.diff is not None:
        from txjax.lab.comparison import compare

        other = with_known_vocab(load(options.diff, rest))
        for line in compare(with_known_vocab(config), other).lines():
            console.print(line, markup=False)
        return 0
    for table in report(with_known_vocab(config)):
        console.print(table)
    return 0


def with_known_vocab(config: Config) -> Config:
    """The config with the data's vocabulary, which a text is read for only where nothing else says it."""
    model, encoder = config.model, config.model.encoder
    known = encoder is None or encoder.embedding == "shared" or encoder.vocab_size is not None
    if model.vocab_size is not None and known:
        return config
    return config.with_vocab(*config.data.source.codec(config.data).sizes)


def report(config: Config) -> list[object]:
    """Tables: parameters by group, work, memory."""
    from rich.table import Table

    from txjax.models import build, costs

    model = build(config.model)
    shapes = model.shapes()
    total = costs.count_parameters(shapes)
    parameters = Table("parameters", "", box=None, title="", title_justify="left")
    parameters.columns[1].justify = "right"
    for name, tree in sorted(shapes.items()):
        for part, leaves in sorted(tree.items()) if name == "layers" else [("", tree)]:
            parameters.add_row(f"{name}/{part}".rstrip("/"), f"{costs.count_parameters(leaves):,}")
    parameters.add_row("total", f"{total:,}")
    active = costs.active_parameters(model, config.model)
    if active != total:
        parameters.add_row("active: used by one token", f"{active:,}")

    context, batch = config.context, config.train.batch_size
    forward = costs.forward_flops(model, 1, context) / context
    step = 3 * forward * context * batch
    work = Table("work", "", box=None)
    work.columns[1].justify = "right"
    work.add_row("context, batch, tokens a step", f"{context:,}  {batch:,}  {context * batch:,}")
    work.add_row("forward FLOPs a token", f"{forward:,.0f}")
    work.add_row("training FLOPs a token", f"{3 * forward:,.0f}")
    work.add_row("training FLOPs a step", f"{step:.3g}")
    work.add_row(f"training FLOPs in {config.train.steps:,} steps", f"{step * config.train.steps:.3g}")

    memory = Table("memory of one copy", "", box=None)
    memory.columns[1].justify = "right"
    for what, size in costs.memory(model, config).items():
        memory.add_row(what, _gib(size))
    return [parameters, work, memory]


def _gib(size: float) -> str:
    return f"{size / 2**30:,.3f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:,.3f} MiB"
