"""txjax's generation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import decoding as d
from txjax.cli import prepare_process
from txjax.decode import Sampling, generate
from txjax.models import build, presets
from txjax.nn.parameters import path_name


def main() -> None:
    task = d.task()
    prepare_process()
    config = presets.llama(
        d.WIDTH, d.LAYERS, d.HEADS, hidden=d.HIDDEN, context=d.CONTEXT, theta=d.THETA, eps=d.NORM_EPS, vocab_size=d.VOCAB
    )
    model, weights = build(config), d.weights()
    params = jax.tree_util.tree_map_with_path(lambda at, _: jnp.array(weights[path_name(at)]), model.shapes())

    def tokens(prompts: np.ndarray, count: int) -> np.ndarray:
        rows = prompts.tolist()
        greedy = Sampling(temperature=0.0)
        return np.array(
            generate(model, params, rows, tokens=count, sampling=greedy, seeds=[0] * len(rows), context=d.CONTEXT)
        )

    d.run(tokens, task, f"jax {jax.__version__}")


if __name__ == "__main__":
    main()
