"""txjax's train step of a sequence model of recurrent.py, as `txjax train` compiles it."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import ours
from benchmarks.peers import recurrent_problem as p
from txjax.cli import prepare_process
from txjax.config import Config, Data, Optim, Train
from txjax.models import presets
from txjax.train.optimizers import AdamW


def config(task: p.Problem) -> Config:
    """The same problem as a config."""
    sizes: dict[str, Any] = {"width": task.width, "num_layers": p.LAYERS, "context": task.length, "vocab_size": p.VOCAB}
    if task.cell == "transformer":
        model = presets.gpt2(**sizes, num_heads=p.HEADS, position="none")
    else:
        model = getattr(presets, task.cell)(**sizes)
    return Config(
        model=model,
        data=Data(context=task.length),
        optim=Optim(learning_rate=p.RATE, optimizer=AdamW(p.BETAS, p.EPS), weight_decay=0.0, clip=1.0),
        train=Train(batch_size=p.TOKENS // task.length),
    )


def main() -> None:
    task = p.problem()
    prepare_process()
    ours.run(config(task), p.weights(task), p.batch(task), task.steps)


if __name__ == "__main__":
    main()
