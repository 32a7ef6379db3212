"""The same GPT as one writes it in JAX first: a scan over layers, autodiff throughout, nothing recomputed, optax."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import optax

from benchmarks.peers import problem as p

Params = dict[str, jax.Array]


def layer_norm(x: jax.Array, w: Params, name: str) -> jax.Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return linear_bias((x - mean) * jax.lax.rsqrt(variance + p.NORM_EPS) * w[f"{name}/gain"], w, f"{name}/bias")


def linear_bias(y: jax.Array, w: Params, name: str) -> jax.Array:
    return y + w[name] if name in w else y


def block(x: jax.Array, w: Params) -> tuple[jax.Array, None]:
    def linear(x: jax.Array, name: str, sum_over: str) -> jax.Array:
        return linear_bias(jnp.einsum(sum_over, x, w[f"{name}/w"]), w, f"{name}/b")

    u = layer_norm(x, w, "mixer_norm")
    q, k, v = (linear(u, f"attention/{name}", "BTD,DNH->BTNH") for name in ("query", "key", "value"))
    scores = jnp.einsum("BTNH,BSNH->BNTS", q, k) / math.sqrt(p.HEAD)
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    mixed = jnp.einsum("BNTS,BSNH->BTNH", jax.nn.softmax(jnp.where(causal, scores, -jnp.inf)), v)
    x = x + linear(mixed, "attention/out", "BTNH,NHD->BTD")
    hidden = jax.nn.gelu(linear(layer_norm(x, w, "feedforward_norm"), "dense/in", "BTD,DF->BTF"))
    return x + linear(hidden, "dense/out", "BTF,FD->BTD"), None


def loss(w: Params, tokens: jax.Array, targets: jax.Array) -> jax.Array:
    layers = {name.removeprefix("layers/block_0/"): leaf for name, leaf in w.items() if name.startswith("layers/")}
    x = w["embedding/w"][tokens] + w["position/table"][: tokens.shape[1]]
    x, _ = jax.lax.scan(block, x, layers)
    logits = layer_norm(x, w, "final_norm") @ w["embedding/w"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def main() -> None:
    task = p.problem()
    tokens, targets = (jnp.asarray(x) for x in p.batch(task.vocab))
    w: Params = {name: jnp.array(leaf) for name, leaf in p.weights(task.vocab, task.bias).items()}
    adamw = optax.adamw(p.RATE, *p.BETAS, eps=p.EPS, weight_decay=p.DECAY, mask={name: p.decayed(name) for name in w})
    optimizer = optax.chain(optax.clip_by_global_norm(p.CLIP), adamw)

    @jax.jit
    def train_step(w: Params, state: Any) -> tuple[Params, Any, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(w, tokens, targets)
        updates, state = optimizer.update(gradients, state, w)
        return optax.apply_updates(w, updates), state, value  # type: ignore[return-value]

    state = optimizer.init(w)

    def step() -> jax.Array:
        nonlocal w, state
        w, state, value = jax.block_until_ready(train_step(w, state))
        return value

    x = jnp.ones((1024, 1024))
    product = jax.jit(jnp.matmul)
    p.run(step, lambda: product(x, x).block_until_ready(), task.steps, version=f"jax {jax.__version__}")


if __name__ == "__main__":
    main()
