"""Let a run continue a text.

txjax generate --workdir=runs/shakespeare --prompt="ROMEO:" --tokens=300 --temperature=0.8 --top_k=40
txjax generate --workdir=DIR --prompt=One --prompt=Two      a batch: each comes out as it would alone
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from txjax.cli import steps


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workdir", required=True, metavar="DIR")
    steps.add_checkpoint(parser)
    parser.add_argument("--prompt", action="append", metavar="TEXT", help="may be given several times")
    parser.add_argument("--tokens", type=int, default=200, help="the most that are added to each prompt")
    parser.add_argument("--temperature", type=float, default=1.0, help="0 is greedy")
    parser.add_argument("--top_k", type=int, metavar="K", help="draw from the K likeliest")
    parser.add_argument("--top_p", type=float, metavar="P", help="draw from the likeliest that make up P")
    parser.add_argument("--seed", type=int, default=0, help="of the first prompt; the next ones take the next seeds")
    parser.add_argument(
        "--past_context",
        choices=("slide", "error"),
        default="slide",
        help="past the model's context: go on from the last half of it, or refuse",
    )


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import refuse, thread_small_loops

    thread_small_loops()
    from txjax import api

    refuse(rest)
    loaded = steps.load(options.workdir, options)
    texts = api.generate(
        loaded,
        options.prompt or [""],
        tokens=options.tokens,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=options.seed,
        past_context=options.past_context,
    )
    for number, text in enumerate(texts):
        if len(texts) > 1:
            print(f"--- {number}")
        print(text)
    return 0
