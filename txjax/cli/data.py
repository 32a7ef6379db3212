"""Corpora: what there is, where it is, what a config makes of it.

txjax data list
txjax data fetch tinyshakespeare
txjax data show --config=configs/shakespeare_char_cpu.py
txjax data show tinyshakespeare
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "fetch", "show"))
    parser.add_argument("name", nargs="?", help="of a corpus, or a path to show")
    parser.add_argument("--config", metavar="FILE.py[:ARG]", help="show what this config makes of its data")
    parser.add_argument("--count", type=int, default=3, help="sequences to show")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.schema import ConfigError

    if options.action == "list":
        _list()
    elif options.action == "fetch":
        if options.name is None:
            raise ConfigError("txjax data fetch needs the NAME of a corpus: see txjax data list")
        _fetch(options.name)
    else:
        _show(options, rest)
    return 0


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from txjax.data.catalog import Row, rows

    table = Table(*Row._fields, box=None)
    for row in rows():
        table.add_row(*row)
    Console().print(table)


def _fetch(name: str) -> None:
    from txjax.data.fetch import fetch

    for path in fetch(name, print):
        print(path)


def _show(options: argparse.Namespace, rest: Sequence[str]) -> None:
    from txjax.config import Config, Data
    from txjax.config.flags import load, override
    from txjax.data.catalog import show
    from txjax.schema import ConfigError

    if (options.name is None) == (options.config is None):
        raise ConfigError("txjax data show needs a corpus or path, or --config=FILE.py, and not both")
    if options.config is not None:
        config = load(options.config, rest)
    else:
        config = override(Config(data=Data(source=options.name)), rest)  # type: ignore[arg-type]
    print("\n".join(show(config, options.count)))
