"""See where a run looks while it reads a text: attention maps and probes, as one page that needs no network.

txjax look --workdir=runs/shakespeare --text="To be, or not to be"
txjax look --workdir=runs/a,runs/b --text=...                  two runs side by side
txjax look --workdir=DIR --step=0,latest --text=...            before and after training
txjax look --workdir=DIR --text="ROMEO:" --tokens=40           the map grows as the run writes
txjax look --workdir=DIR --text="... because it was too tired" --text="... because it was too wide" --between=it,animal

With an encoder, the text is what it reads, and the decoder reads --target, or else what it writes itself. Of two runs
each goes on in its own words: compare them over one text without --tokens, or over one --target.
Nothing is opened: the page lies where the last line says.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txjax.api import Loaded


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR[,OTHER]")
    parser.add_argument("--step", default="latest", metavar="latest|best|N[,...]", help="0: before training")
    parser.add_argument("--text", action="append", required=True, help="may be given twice: what differs is compared")
    parser.add_argument("--tokens", type=int, metavar="N", help="let the run add as many, each the likeliest")
    parser.add_argument("--target", metavar="TEXT", help="what a decoder over an encoder reads")
    parser.add_argument("--between", metavar="A,B", help="tokens whose weight is compared at first: A looks at B")
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: look.html in the first run's samples/")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import refuse
    from txjax.schema import require
    from txjax.store.files import write_text
    from txjax.view.attention import attention_page
    from txjax.view.reading import read

    refuse(rest)
    require(len(options.text) <= 2, f"--text is given once or twice, got {len(options.text)} of them")
    require(options.tokens is None or options.tokens >= 0, f"--tokens must not be negative, got {options.tokens}")
    between = None if options.between is None else tuple(part.strip() for part in options.between.split(","))
    require(between is None or len(between) == 2, f"--between is two tokens, as it,animal: got {options.between!r}")
    loaded = runs(options.workdir.split(","), options.step.split(","))
    names = labels(loaded)
    readings = [
        read(one, name, text, tokens=options.tokens, target=options.target)
        for one, name in zip(loaded, names, strict=True)
        for text in options.text
    ]
    out = options.out or loaded[0].folder / "samples" / "look.html"
    make_folder(out.parent)
    page = attention_page(readings, between)
    write_text(out, page)
    print(f"{len(readings)} maps of attention, {len(page.encode()) / 1e6:.1f} MB")
    print(f"page       {out}")
    return 0


def make_folder(folder: Path) -> None:
    from txjax.schema import ConfigError
    from txjax.store.files import reason

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out: cannot make the folder {folder}: {reason(error)}: give another file") from None


def runs(folders: Sequence[str], steps: Sequence[str]) -> list[Loaded]:
    """A checkpoint of each folder, or several of one; at most two. ConfigError where they are more."""
    from txjax.schema import require

    require(len(folders) == 1 or len(steps) == 1, "--step says one step where --workdir says two runs")
    require(max(len(folders), len(steps)) <= 2, "--workdir and --step say at most two: a page compares two checkpoints")
    return [load(folder, step) for folder in folders for step in steps]


def load(folder: str, step: str) -> Loaded:
    """A checkpoint; step 0, where the run kept none, is drawn again from its seed."""
    import jax

    from txjax import api
    from txjax.cli.steps import which
    from txjax.schema import require
    from txjax.store import Run
    from txjax.train.state import initial_state

    wanted = which(step)
    kept = Run.read(folder).saved.steps()
    if wanted != 0 or 0 in kept or not kept:
        return api.load(folder, wanted)
    last = api.load(folder)
    start = last.config.train.init_from
    require(start is None, f"--step=0: {folder} began with the weights of {start}: give that run beside it instead")
    return replace(last, params=jax.jit(lambda: initial_state(last.config, last.model).params)(), step=0)


def labels(loaded: Sequence[Loaded]) -> list[str]:
    """What tells runs apart: the name of the folder, and the step."""
    same = len({one.folder.name for one in loaded}) < len({one.folder for one in loaded})
    return [f"{one.folder if same else one.folder.name}, step {one.step}" for one in loaded]
