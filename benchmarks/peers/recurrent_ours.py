"""txjax's recurrent train step, as `txjax train` compiles it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from benchmarks.peers import problem as timing
from benchmarks.peers import recurrent_problem as p
from txjax.batch import Batch
from txjax.cli import prepare_process
from txjax.config import Config, Data, Optim, Train
from txjax.models import build, presets
from txjax.nn.parameters import path_name
from txjax.parallel import make_layout
from txjax.train.optimizers import AdamW
from txjax.train.programs import Programs


def config(task: p.Problem) -> Config:
    """The same problem as a config."""
    preset = getattr(presets, task.cell)
    return Config(
        model=preset(width=task.width, num_layers=p.LAYERS, context=task.length, vocab_size=p.VOCAB),
        data=Data(context=task.length),
        optim=Optim(learning_rate=p.RATE, optimizer=AdamW(p.BETAS, p.EPS), weight_decay=0.0, clip=1.0),
        train=Train(batch_size=p.TOKENS // task.length),
    )


def main() -> None:
    task = p.problem()
    prepare_process()
    settings = config(task)
    model, layout = build(settings.model), make_layout(settings.mesh)
    programs = Programs(settings, model, layout)
    with layout.scope():
        tokens, targets = p.batch(task)
        batch = Batch(tokens=tokens, targets=targets)
        program, compiling = programs.compile_train_step(batch)
        weights = p.weights(task)
        params = jax.tree_util.tree_map_with_path(lambda at, _: jnp.array(weights.pop(path_name(at))), model.shapes())
        assert not weights, f"txjax's model has no {', '.join(weights)}"
        state = dataclasses.replace(programs.initial_state(), params=params)
        batch = programs.to_devices(batch)

    def step() -> jax.Array:
        nonlocal state
        state, metrics = program(state, batch, programs.hyper)
        jax.block_until_ready(state.params)
        return metrics.loss

    x = jnp.ones((1024, 1024))
    product = jax.jit(jnp.matmul)
    version = f"jax {jax.__version__}"
    timing.run(step, lambda: product(x, x).block_until_ready(), task.steps, compiling=compiling, version=version)


if __name__ == "__main__":
    main()
