"""Translate a file line by line: one line in, one line out, in order, on standard output.

txjax translate --workdir=runs/multi30k --from=test.en --average=10 > test.out
txjax translate --workdir=DIR --from=- --beam=1 --stop=full        greedy, from standard input
txjax translate --workdir=DIR --from=test.en --reference=test.de   and its BLEU, on standard error

Of finished texts the one of the largest log P / penalty wins: penalty=fairseq is |y|^length_penalty, penalty=wu is
((5 + |y|) / 6)^length_penalty. BLEU is that of the text as it is written, cut at white space, unless --tokenize says
how to cut it; byte-pair pieces of the reference (anst@@ arr@@ t) are joined. Files may end in .gz.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from txjax.cli import steps

SEARCH = ("beam", "length_penalty", "penalty", "stop", "ratio", "extra", "longest", "batch_size")  # of api.translate


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR")
    steps.add_checkpoint(parser)
    parser.add_argument("--from", dest="source", required=True, metavar="FILE|-", help="what to translate")
    search = parser.add_argument_group("search", argument_default=argparse.SUPPRESS)  # api.translate has the defaults
    search.add_argument("--beam", type=int, metavar="K", help="texts that are open at once")
    search.add_argument("--length_penalty", type=float, metavar="A", help="larger: longer; 0: none")
    search.add_argument("--penalty", choices=("fairseq", "wu"), help="its form, above")
    search.add_argument(
        "--stop",
        choices=("certain", "full"),
        help="once no open text can win, or once K have ended, as in fairseq",
    )
    search.add_argument("--ratio", type=float, metavar="R", help="at most R x source + EXTRA tokens")
    search.add_argument("--extra", type=int, metavar="EXTRA")
    search.add_argument("--longest", type=int, metavar="N", help="and never more than N")
    search.add_argument("--batch_size", type=int, metavar="N", help="lines at once")
    parser.add_argument("--reference", metavar="FILE", help="a translation of each line, to compute BLEU")
    parser.add_argument("--tokenize", choices=("none", "13a", "char", "zh"), default="none", help="of BLEU")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax import api
    from txjax.cli import refuse
    from txjax.decode.bleu import bleu_against

    refuse(rest)
    lines = read_lines(options.source)
    score = None
    if options.reference is not None:  # what is wrong with it is said before the translation, not after it
        score = bleu_against(read_lines(options.reference), len(lines), options.tokenize)
    loaded = steps.load(options.workdir, options)
    how = {name: getattr(options, name) for name in SEARCH if hasattr(options, name)}
    with progress(len(lines)) as advance:
        texts = api.translate(loaded, lines, advance=advance, **how)
    for text in texts:
        print(text.replace("\n", " "))
    if score is not None:
        found = score(texts)
        print(f"{found.text}\n{found.signature}", file=sys.stderr)
    return 0


def read_lines(name: str) -> list[str]:
    """The lines of a file, or with - of standard input."""
    from txjax.data.reading import file_text, lines_of

    return lines_of(sys.stdin.read() if name == "-" else file_text(Path(name)))


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """Told how many lines are done: a bar on a terminal, a line now and then in a log; on standard error."""
    from rich.console import Console
    from rich.progress import Progress

    from txjax.train.progress import LINE_EVERY

    console = Console(stderr=True, highlight=False)
    last = time.monotonic()
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("translating", total=total)

        def advance(done: int) -> None:
            nonlocal last
            bar.update(task, completed=done)
            if not console.is_terminal and time.monotonic() - last > LINE_EVERY:
                last = time.monotonic()
                console.print(f"translated {done}/{total} lines")

        yield advance
