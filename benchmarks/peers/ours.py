"""txjax's train step, as `txjax train` compiles it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import problem as p
from txjax.batch import Batch
from txjax.cli import prepare_process
from txjax.config import Config, Data, Optim, Train
from txjax.models import build, presets
from txjax.models.costs import train_flops_per_token
from txjax.nn.parameters import path_name
from txjax.parallel import make_layout
from txjax.train.optimizers import AdamW
from txjax.train.programs import Programs


def config(vocab: int, bias: bool) -> Config:
    """The same problem as a config."""
    return Config(
        model=presets.gpt2(p.WIDTH, p.LAYERS, p.HEADS, context=p.CONTEXT, vocab_size=vocab, bias=bias, unroll="all"),
        data=Data(context=p.CONTEXT),
        optim=Optim(learning_rate=p.RATE, optimizer=AdamW(p.BETAS, p.EPS), weight_decay=p.DECAY, clip=p.CLIP),
        train=Train(batch_size=p.BATCH),
    )


def run(
    settings: Config, weights: dict[str, np.ndarray], batch: tuple[np.ndarray, np.ndarray], steps: int, **facts: Any
) -> None:
    """Time the train step of a config from these weights, on one batch, and print what came of it."""
    model, layout = build(settings.model), make_layout(settings.mesh)
    programs = Programs(settings, model, layout)
    with layout.scope():
        program, compiling = programs.compile_train_step(Batch(*batch))
        params = jax.tree_util.tree_map_with_path(lambda at, _: jnp.array(weights.pop(path_name(at))), model.shapes())
        assert not weights, f"txjax's model has no {', '.join(weights)}"
        state = dataclasses.replace(programs.initial_state(), params=params)
        on_device = programs.to_devices(Batch(*batch))

    def step() -> jax.Array:
        nonlocal state
        state, metrics = program(state, on_device, programs.hyper)
        jax.block_until_ready(state.params)
        return metrics.loss

    x = jnp.ones((1024, 1024))
    product = jax.jit(jnp.matmul)
    version = f"jax {jax.__version__}"
    p.run(step, lambda: product(x, x).block_until_ready(), steps, compiling=compiling, version=version, **facts)


def main() -> None:
    task = p.problem()
    prepare_process()
    settings = config(task.vocab, task.bias)
    flops = train_flops_per_token(build(settings.model), p.CONTEXT)
    run(settings, p.weights(task.vocab, task.bias), p.batch(task.vocab), task.steps, flops_per_token=flops)


if __name__ == "__main__":
    main()
