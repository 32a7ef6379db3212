"""The time of a train step, here and in PyTorch: one small GPT, the same weights, the same batch, the same machine.

  python benchmarks/train_step.py [--peer-python=PATH] [--also-python=PATH ...] [--rounds=10] [--steps=30] [--bias]

4 layers, width 128, 4 heads, 128 tokens, batch 16, float32, AdamW, clipping, tied head, no dropout. The sides, each a
process of its own in every round, in an order that turns from round to round:

  ours       txjax, as `txjax train` compiles it (peers/ours.py)
  plain      the same model as one writes it in JAX first (peers/plain_scan.py)
  eager, eager_fused, compiled
             PyTorch with scaled_dot_product_attention: foreach AdamW, fused AdamW, torch.compile with fused AdamW

All have the same cores and allocator settings. A launch's figure is the median of its steps, each waited for, without
compiling and the first 8, in moments when other processes leave the CPUs alone. The losses of the first 5 steps have to
agree. A ratio compares the two launches of a round: its geometric mean over rounds, with Student's 95 % interval on the
logarithms. --also-python names environments whose txjax is timed beside this one's, on another jax for example.
README.md says how to make PyTorch's environment.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _ratio import Ratio, ratio

ROOT = Path(__file__).resolve().parents[1]
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
TOKENS = 128 * 16  # of a step
LOSS_TOLERANCE = 1e-4  # relative


@dataclass
class Side:
    """A form of the step in an environment, and what its launches printed."""

    name: str
    python: str
    script: str
    launches: list[dict[str, Any]] = field(default_factory=list)

    def launch(self, arguments: Sequence[str], environment: dict[str, str]) -> None:
        """Run it once. Raises SystemExit with what it said where it fails."""
        script = ROOT / "benchmarks" / "peers" / self.script
        command = [self.python, str(script), f"--form={self.name}", *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{self.name} failed ({' '.join(command)}):\n{done.stderr}")
        self.launches.append(json.loads(done.stdout.splitlines()[-1]))

    @property
    def seconds(self) -> list[float]:
        """The median step of each launch."""
        return [statistics.median(launch["seconds"]) for launch in self.launches]

    def shares(self, flops_per_token: float) -> list[float]:
        """Model FLOP/s of each launch in units of the fastest product of the same launch."""
        flops = flops_per_token * TOKENS
        return [flops / s / launch["peak_flops"] for s, launch in zip(self.seconds, self.launches, strict=True)]

    @property
    def version(self) -> str:
        return self.launches[0]["version"]


def sides_of(options: argparse.Namespace) -> list[Side]:
    pythons = [sys.executable, *options.also_python]
    sides = [Side("ours", python, "ours.py") for python in pythons]
    sides += [Side("plain", python, "plain_scan.py") for python in pythons]
    return sides + [Side(form, options.peer_python, "torch_gpt.py") for form in ("eager", "eager_fused", "compiled")]


def environment(cache: str) -> dict[str, str]:
    """Of every side: where to import from, the allocator's settings, and compile caches that later rounds share."""
    return os.environ | ALLOCATOR | {
        "PYTHONPATH": str(ROOT),
        "TXJAX_CACHE": cache,
        "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch",
    }  # fmt: skip


def measure(sides: list[Side], options: argparse.Namespace) -> None:
    arguments = [f"--vocab={options.vocab}", f"--steps={options.steps}"] + ["--bias"] * options.bias
    with tempfile.TemporaryDirectory() as cache:
        for number in range(options.rounds):
            turn = number % len(sides)
            order = sides[turn:] + sides[:turn]
            for side in order if number % 2 else reversed(order):
                side.launch(arguments, environment(cache))
            figures = ", ".join(f"{side.name} {1000 * side.seconds[-1]:.1f}" for side in sides)
            print(f"round {number + 1} of {options.rounds}, ms a step: {figures}", flush=True)


def same_losses(sides: list[Side]) -> None:
    """SystemExit unless every launch of every side took the same first steps."""
    reference = sides[0].launches[0]["losses"]
    for side in sides:
        for launch in side.launches:
            pairs = zip(launch["losses"], reference, strict=True)
            if not all(math.isclose(a, b, rel_tol=LOSS_TOLERANCE) for a, b in pairs):
                raise SystemExit(f"{side.name} computes something else: losses {launch['losses']}, not {reference}")


def table(sides: list[Side]) -> str:
    flops_per_token = sides[0].launches[0]["flops_per_token"]
    rows = [f"{'side':12} {'version':18} {'ms a step':>10} {'fastest':>8} {'tokens/s':>9} {'of peak':>8}"]
    for side in sides:
        seconds, share = statistics.median(side.seconds), statistics.median(side.shares(flops_per_token))
        rows.append(
            f"{side.name:12} {side.version:18} {1000 * seconds:10.1f} {1000 * min(side.seconds):8.1f} "
            f"{TOKENS / seconds:9.0f} {share:8.1%}"
        )
    others = max(launch["others"] for side in sides for launch in side.launches)
    if others > 0.03:
        rows.append(f"other processes had up to {others:.0%} of the CPUs: close them, these are figures of both")
    peak = statistics.median(launch["peak_flops"] / 1e9 for side in sides for launch in side.launches)
    rows.append(
        f"peak: the fastest product of two 1024 x 1024 matrices in the launch, {peak:.0f} GFLOP/s in the median"
    )
    return "\n".join(rows)


def ratios(sides: list[Side]) -> dict[str, Ratio | str]:
    """What the last line says, by name."""
    torch = [side for side in sides if side.script == "torch_gpt.py"]
    best = min(torch, key=lambda side: statistics.fmean(map(math.log, side.seconds)))
    found: dict[str, Ratio | str] = {"best_torch": best.name}
    for number, (ours, plain) in enumerate(zip(of(sides, "ours.py"), of(sides, "plain_scan.py"), strict=True)):
        where = f" ({ours.version})" if number else ""
        found[f"step_time_ratio_vs_best_torch{where}"] = ratio(ours.seconds, best.seconds)
        found[f"speedup_vs_plain_scan{where}"] = ratio(plain.seconds, ours.seconds)
    return found


def of(sides: list[Side], script: str) -> list[Side]:
    return [side for side in sides if side.script == script]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="an interpreter that has torch")
    parser.add_argument("--also-python", action="append", default=[], metavar="PATH")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30, help="timed steps of a launch")
    parser.add_argument("--vocab", type=int, default=65, help="65: the characters of tinyshakespeare")
    parser.add_argument("--bias", action="store_true", help="biases in linear maps and norms")
    options = parser.parse_args()
    sides = sides_of(options)
    measure(sides, options)
    same_losses(sides)
    print(table(sides))
    line: dict[str, Any] = {}
    for name, value in ratios(sides).items():
        line |= value.entries(name) if isinstance(value, Ratio) else {name: value}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
