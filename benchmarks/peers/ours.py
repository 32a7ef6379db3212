"""txjax's train step, as `txjax train` compiles it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

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


def main() -> None:
    task = p.problem()
    prepare_process()
    settings = config(task.vocab, task.bias)
    model, layout = build(settings.model), make_layout(settings.mesh)
    programs = Programs(settings, model, layout)
    with layout.scope():
        tokens, targets = p.batch(task.vocab)
        batch = Batch(tokens=tokens, targets=targets)
        program, compiling = programs.compile_train_step(batch)
        weights = p.weights(task.vocab, task.bias)
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
    flops = train_flops_per_token(model, p.CONTEXT)
    p.run(
        step,
        lambda: product(x, x).block_until_ready(),
        task.steps,
        compiling=compiling,
        flops_per_token=flops,
        version=f"jax {jax.__version__}",
    )


if __name__ == "__main__":
    main()
