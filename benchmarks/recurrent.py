"""The time of a train step of recurrent nets and Transformers, here and in PyTorch: the same weights, the same batch,
the same machine.

  python benchmarks/recurrent.py [--peer-python=PATH] [--cells=rnn,gru,lstm] [--widths=256] [--lengths=64,256,1024]
  python benchmarks/recurrent.py --cells=lstm,transformer --widths=192 --lengths=64,1024,4096

2 layers and nothing else between an embedding and a head, 4096 tokens a step, float32, AdamW, clipping. The peer is
torch.nn.RNN, GRU or LSTM, without the second bias that adds nothing, or of a Transformer GPT-2's blocks with
scaled_dot_product_attention, 4 heads, no positions; all with fused AdamW. Launches, settings and ratios are
those of train_step.py; the losses of the first 5 steps have to agree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile

from _ratio import ratio
from train_step import Side, environment, same_losses


def case(cell: str, width: int, length: int, options: argparse.Namespace, cache: str) -> tuple[Side, Side]:
    """Both sides of one problem, in an order that turns from round to round."""
    sides = Side("ours", sys.executable, "recurrent_ours.py"), Side("torch", options.peer_python, "torch_recurrent.py")
    task = [f"--cell={cell}", f"--width={width}", f"--length={length}", f"--steps={options.steps}"]
    for number in range(options.rounds):
        for side in sides if number % 2 else sides[::-1]:
            side.launch(task, environment(cache))
    same_losses(list(sides))
    return sides


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="an interpreter that has torch")
    parser.add_argument("--cells", type=lambda text: text.split(","), default="rnn,gru,lstm")
    parser.add_argument("--widths", type=numbers, default="256")
    parser.add_argument("--lengths", type=numbers, default="64,256,1024")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10, help="timed steps of a launch")
    options = parser.parse_args()
    line: dict[str, float | list[float]] = {}
    print(f"{'problem':20} {'ours, ms':>9} {'torch, ms':>9} {'ratio':>6}  95 %")
    with tempfile.TemporaryDirectory() as cache:
        for cell, width, length in itertools.product(options.cells, options.widths, options.lengths):
            ours, torch = case(cell, width, length, options, cache)
            name, found = f"{cell}_{width}x{length}", ratio(ours.seconds, torch.seconds)
            figures = " ".join(f"{1000 * statistics.median(side.seconds):9.1f}" for side in (ours, torch))
            print(f"{name:20} {figures} {found.mean:6.2f}  {found.low:.2f} to {found.high:.2f}", flush=True)
            line |= found.entries(f"step_time_ratio_vs_torch_{name}")
    print(json.dumps(line))


if __name__ == "__main__":
    main()
