"""What our models compute from the same folder, set against theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracle_encoders_ours as encoders

from txjax.batch import Batch
from txjax.interop import huggingface, table
from txjax.models import build

PROMPT = 6


class Parity(NamedTuple):
    """Largest absolute differences; hidden of any layer, gradient of any parameter. tokens: whether all are equal."""

    logits: float
    hidden: float
    gradient: float
    tokens: bool


def parity(
    folder: Path, theirs: dict[str, np.ndarray], reduce: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> Parity:
    """reduce: what `theirs` holds of each gradient. Where it holds no gradients, none are compared."""
    model, params, family = load(folder)
    if "targets" in theirs:
        return encoder_parity(model, params, family, theirs, reduce)
    tokens = jnp.asarray(theirs["tokens"])

    def loss(params: Any) -> tuple[jax.Array, Any]:
        out = model.apply(params, Batch(tokens=tokens), capture=("embedded", "residual"))
        rates = jax.nn.log_softmax(out.logits[:, :-1])
        of_next = jnp.take_along_axis(rates, tokens[:, 1:, None], axis=-1)
        return -of_next.mean(), (out.logits, out.hidden, out.captured)

    others = {name.removeprefix("grad."): x for name, x in theirs.items() if name.startswith("grad.")}
    own: dict[str, np.ndarray] = {}
    if others:
        (_, (logits, hidden, captured)), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
        tensors = table.write(without_shift(family.table), model, jax.device_get(gradients))
        own = {name: reduce(tensor) for name, tensor in tensors}
        assert own.keys() <= others.keys(), own.keys() - others.keys()
        assert others.keys() - own.keys() <= {name for name, _ in family.copies}, others.keys() - own.keys()
    else:
        _, (logits, hidden, captured) = jax.jit(loss)(params)
    states = [captured["embedded"][0], *residuals(model.config, captured)[:-1], hidden]
    pairs = zip(states, hidden_of(theirs), strict=True)
    return Parity(
        logits=far(logits, theirs["logits"]),
        hidden=max(far(ours, other) for ours, other in pairs),
        gradient=max((far(own[name], others[name]) for name in own), default=0.0),
        tokens=bool(np.array_equal(greedy(model, params, theirs), theirs["generated"])),
    )


def encoder_parity(
    model: Any, params: Any, family: Any, theirs: dict[str, np.ndarray], reduce: Callable[[np.ndarray], np.ndarray]
) -> Parity:
    """Of an encoder, or of a pair: see oracle_encoders_ours."""
    value = jax.jit(jax.value_and_grad(lambda params: encoders.loss(model, params, theirs), has_aux=True))
    (_, out), gradients = value(params)
    logits, states = encoders.differences(model, out, theirs, residuals)
    tensors = table.write(without_shift(family.table), model, jax.device_get(gradients))
    others = {name.removeprefix("grad."): x for name, x in theirs.items() if name.startswith("grad.")}
    bare = not any(name.startswith(family.prefix) for name in others)  # a file of the bare model has no prefix
    named = ((name.removeprefix(family.prefix) if bare else name, x) for name, x in tensors if others)
    own = {name: reduce(x) for name, x in named if name != encoders.BUFFER}
    assert own.keys() <= others.keys(), own.keys() - others.keys()
    same = "generated" not in theirs or np.array_equal(encoders.greedy(model, params, theirs), theirs["generated"])
    return Parity(
        logits=max(far(*pair) for pair in logits.values()),
        hidden=max(far(*pair) for pair in states),
        gradient=max((far(own[name], others[name]) for name in own), default=0.0),
        tokens=bool(same),
    )


def load(folder: Path) -> tuple[Any, Any, huggingface.Family]:
    read = huggingface.read(folder)
    family = huggingface.family_of(huggingface.files.read_json(folder / "config.json")["model_type"])
    return build(replace(read.model, remat="none")), jax.tree.map(jnp.asarray, read.params), family


def residuals(model: Any, captured: Any) -> list[np.ndarray]:
    """The stream after each layer, in order."""
    first = [captured[f"first_{i}"]["residual"][0] for i in range(len(model.first_layers))]
    blocks = [captured["layers"][f"block_{i}"]["residual"][0] for i in range(len(model.pattern))]
    return first + [block[period] for period in range(model.periods) for block in blocks]


def hidden_of(theirs: dict[str, np.ndarray]) -> list[np.ndarray]:
    count = sum(name.startswith("hidden.") for name in theirs)
    return [theirs[f"hidden.{i}"] for i in range(count)]


def without_shift(rows: table.Table) -> table.Table:
    """The table as gradients go through it."""
    return tuple(replace(row, shift=0.0) for row in rows)


def greedy(model: Any, params: Any, theirs: dict[str, np.ndarray]) -> np.ndarray:
    """What the model writes after a prompt with its cache, the likeliest token each time, in one program."""
    prompt_BT, count = jnp.asarray(theirs["tokens"][:, :PROMPT]), theirs["generated"].shape[1]

    @jax.jit
    def write(params: Any, prompt_BT: jax.Array) -> jax.Array:
        def one(carry: Any, _: None) -> tuple[Any, jax.Array]:
            logits_BV, cache = carry
            token_B = jnp.argmax(logits_BV, axis=-1)
            return model.step(params, token_B, cache), token_B

        start = model.prefill(params, Batch(tokens=prompt_BT), PROMPT + count)
        return jax.lax.scan(one, start, None, length=count)[1].T

    return np.asarray(write(params, prompt_BT))


def far(a: Any, b: Any) -> float:
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.abs(a - b).max())
