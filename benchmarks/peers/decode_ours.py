"""txjax's generation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers import decoding as d
from txjax.cli import prepare_process, thread_small_loops
from txjax.decode import Sampling, generate
from txjax.models import build, presets
from txjax.nn.parameters import path_name


def main() -> None:
    task = d.task()
    prepare_process()
    thread_small_loops()  # as `txjax generate` does
    sizes = {"hidden": d.HIDDEN, "context": d.CONTEXT, "vocab_size": d.VOCAB}
    config = presets.llama(d.WIDTH, d.LAYERS, d.HEADS, theta=d.THETA, eps=d.NORM_EPS, **sizes)
    model, weights = build(config), d.weights()
    params = jax.tree_util.tree_map_with_path(lambda at, _: jnp.array(weights[path_name(at)]), model.shapes())

    def tokens(prompts: np.ndarray, count: int) -> np.ndarray:
        how = {"sampling": Sampling(temperature=0.0), "seeds": range(len(prompts)), "context": d.CONTEXT}
        return np.array(generate(model, params, prompts.tolist(), tokens=count, **how))

    d.run(tokens, task, f"jax {jax.__version__}")


if __name__ == "__main__":
    main()
