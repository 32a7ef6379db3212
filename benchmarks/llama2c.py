"""Greedy generation of the 260 K parameters of stories260K, here and by llama2.c, a program of 900 lines of C.

  git clone https://github.com/karpathy/llama2.c && gcc -O3 -o llama2.c/run llama2.c/run.c -lm
  TXJAX_DATA=DIR python benchmarks/llama2c.py --binary=llama2.c/run [--rounds=10]

DIR/stories260K has stories260K.bin and tok512.bin. 256 tokens from the empty text, float32. llama2.c runs on one thread
and prints the tokens a second of all but its first token; here they are the same tokens, timed the same way, in a
process of its own for all rounds. The texts have to be equal. A ratio compares the two sides of a round: its geometric
mean over rounds, with Student's 95 % interval on the logarithms.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _ratio import ratio

TOKENS = 256


def theirs(binary: Path, folder: Path) -> tuple[str, float]:
    """Its text, and seconds a token."""
    command = [str(binary), str(folder / "stories260K.bin"), "-z", str(folder / "tok512.bin"), "-t", "0"]
    done = subprocess.run([*command, "-n", str(TOKENS)], capture_output=True, text=True, check=True)
    rate = re.search(r"achieved tok/s: ([\d.]+)", done.stderr)
    if rate is None:
        raise SystemExit(f"{binary} printed no speed: {done.stderr}")
    return done.stdout.strip(), 1 / float(rate[1])


class Ours:
    def __init__(self, folder: Path, workdir: str):
        from txjax.cli import prepare_process, thread_small_loops

        prepare_process()
        thread_small_loops()  # as `txjax generate` does
        import txjax
        from txjax.cli import main

        if main(["convert", f"--from={folder}", f"--to={workdir}"]) != 0:
            raise SystemExit(f"{folder} could not be read")
        self.generate, self.loaded = txjax.generate, txjax.load(workdir)

    def seconds(self, tokens: int) -> tuple[str, float]:
        start = time.perf_counter()
        (text,) = self.generate(self.loaded, [""], tokens=tokens, temperature=0.0)
        return text, time.perf_counter() - start

    def measure(self) -> tuple[str, float]:
        """Its text, and seconds a token after the first."""
        _, first = self.seconds(1)
        text, whole = self.seconds(TOKENS)
        return text.strip(), (whole - first) / (TOKENS - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, metavar="PATH", help="llama2.c's run, compiled")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if options.binary is None or "TXJAX_DATA" not in os.environ:
        print("left out: it needs --binary and TXJAX_DATA, see --help", file=sys.stderr)
        return
    folder = Path(os.environ["TXJAX_DATA"]) / "stories260K"
    times: dict[str, list[float]] = {"ours": [], "llama2.c": []}
    with tempfile.TemporaryDirectory() as workdir:
        ours = Ours(folder, f"{workdir}/run")
        ours.measure()  # compiles
        for _ in range(options.rounds):
            (text, mine), (wanted, its) = ours.measure(), theirs(options.binary, folder)
            if text != wanted:
                raise SystemExit(f"the texts differ:\n{text}\n---\n{wanted}")
            times["ours"].append(mine)
            times["llama2.c"].append(its)
    for name, seconds in times.items():
        print(f"{name:10} {1e6 * sorted(seconds)[len(seconds) // 2]:8.0f} us a token")
    print(json.dumps(ratio(times["llama2.c"], times["ours"]).entries("tokens_per_second_ratio_llama2c")))


if __name__ == "__main__":
    main()
