"""Greedy generation, here and in transformers: one small Llama, the same weights, the same prompts, the same machine.

  python benchmarks/decode.py [--peer-python=PATH] [--also-python=PATH ...] [--rounds=10] [--tokens=128]

12 layers, width 256, 8 heads, feed-forward 688, vocabulary 8,192, float32: 13.7 M parameters. Prompts of 32 tokens
alone and in a batch of 16, the prefill of 512, and the time a step takes after 256, 512 and 768 tokens. The sides,
each a process of its own in every round, in an order that turns from round to round:

  ours             txjax.decode.generate (peers/decode_ours.py)
  dynamic, static  transformers' generate() with its two caches (peers/decode_transformers.py)

A launch's figure is the median of its repetitions, without compiling. The first 16 tokens have to agree. A ratio
compares the two launches of a round: its geometric mean over rounds, with Student's 95 % interval on the logarithms.
--also-python names environments whose txjax is timed beside this one's. README.md says how to make the peers'.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _ratio import ratio

ROOT = Path(__file__).resolve().parents[1]
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
ROWS = {"step, batch 1": 1, "step, batch 16": 16}
# Speed, theirs over ours in time: 2 is twice as fast here.
RATIOS = {
    "tokens_per_second_ratio_batch_1": "step, batch 1",
    "tokens_per_second_ratio_batch_16": "step, batch 16",
    "prefill_speed_ratio_512": "prefill of 512",
}


@dataclass
class Side:
    """A form of generation in an environment, and what its launches printed."""

    name: str
    python: str
    script: str
    launches: list[dict[str, Any]] = field(default_factory=list)

    def launch(self, options: argparse.Namespace, cache: str) -> None:
        """Run it once. Raises SystemExit with what it said where it fails."""
        script = ROOT / "benchmarks" / "peers" / self.script
        command = [self.python, str(script), f"--form={self.name}"]
        command += [f"--tokens={options.tokens}", f"--repeats={options.repeats}"]
        environment = os.environ | ALLOCATOR | {"PYTHONPATH": str(ROOT), "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax"}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.name} failed ({' '.join(command)}):\n{done.stderr}")
        self.launches.append(json.loads(done.stdout.splitlines()[-1]))

    def seconds(self, what: str) -> list[float]:
        """A figure of each launch."""
        return [launch["seconds"][what] for launch in self.launches]


def measure(sides: list[Side], options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as cache:
        for number in range(options.rounds):
            turn = number % len(sides)
            order = sides[turn:] + sides[:turn]
            for side in order if number % 2 else reversed(order):
                side.launch(options, cache)
            figures = ", ".join(
                f"{side.name} {' '.join(f'{1000 * side.seconds(what)[-1]:.1f}' for what in ROWS)}" for side in sides
            )
            print(f"round {number + 1} of {options.rounds}, ms a step of {' and '.join(ROWS)}: {figures}", flush=True)


def same_tokens(sides: list[Side]) -> None:
    """SystemExit unless every side says the same."""
    for side in sides:
        if side.launches[0]["tokens"] != sides[0].launches[0]["tokens"]:
            raise SystemExit(f"{side.name} ({side.python}) says something else than {sides[0].name}")


def table(sides: list[Side]) -> str:
    figures = list(sides[0].launches[0]["seconds"])
    lines = [f"{'ms, medians of launches':36}" + "".join(f"{what:>18}" for what in figures)]
    for side in sides:
        name = f"{side.name} ({side.launches[0]['version']})"
        lines.append(
            f"{name:36}" + "".join(f"{1000 * statistics.median(side.seconds(what)):18.2f}" for what in figures)
        )
    for side in sides:
        rates = (f"{rows / statistics.median(side.seconds(what)):7,.0f} ({what})" for what, rows in ROWS.items())
        lines.append(f"tokens/s, {side.name}: {', '.join(rates)}")
    return "\n".join(lines)


def ratios(sides: list[Side]) -> dict[str, Any]:
    """What the last line says: against each of the peer's caches, and against the faster of the two."""
    peers = [side for side in sides if side.script == "decode_transformers.py"]
    line: dict[str, Any] = {}
    for ours in (side for side in sides if side not in peers):
        where = "" if ours is sides[0] else f" ({ours.launches[0]['version']})"
        for name, what in RATIOS.items():
            best = min(peers, key=lambda side, what=what: statistics.fmean(map(math.log, side.seconds(what))))
            for over, side in {"": best, **{f"_over_{side.name}": side for side in peers}}.items():
                line |= ratio(side.seconds(what), ours.seconds(what)).entries(f"{name}{over}{where}")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="one that has transformers")
    parser.add_argument("--also-python", action="append", default=[], metavar="PATH")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=128, help="steps that are timed together")
    parser.add_argument("--repeats", type=int, default=5, help="of each timing in a launch")
    options = parser.parse_args()
    sides = [Side("ours", python, "decode_ours.py") for python in (sys.executable, *options.also_python)]
    sides += [Side(form, options.peer_python, "decode_transformers.py") for form in ("dynamic", "static")]
    measure(sides, options)
    same_tokens(sides)
    print(table(sides))
    print(json.dumps(ratios(sides)))


if __name__ == "__main__":
    main()
