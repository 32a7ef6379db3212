"""A second model, of a few lines, that keeps the contract of txjax.models.Model: training, evaluation and decoding
know nothing else of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.batch import Batch
from txjax.config import Config, Mesh, Optim, Train
from txjax.config import Model as ModelConfig
from txjax.decode import Sampling, generate
from txjax.models import Model, Outputs
from txjax.nn.context import Knobs
from txjax.parallel import make_layout
from txjax.train.evaluate import evaluate
from txjax.train.programs import Programs

VOCAB, WIDTH = 8, 16


@dataclass(frozen=True)
class Bigram:
    """The next token from the last one alone: softmax(table[token] head)."""

    def init(self, key: jax.Array) -> Any:
        table, head = jax.random.split(key)
        return {
            "table": jax.random.normal(table, (VOCAB, WIDTH)),
            "head": jax.random.normal(head, (WIDTH, VOCAB)) / WIDTH,
        }

    def shapes(self) -> Any:
        return jax.eval_shape(self.init, jax.random.key(0))

    def axes(self) -> Any:
        return {"table": ("vocab", "embed"), "head": ("embed", "vocab")}

    def knobs(self) -> Knobs:
        return Knobs(jnp.ones(()), jnp.zeros(()))

    def inputs(self, rows: int, length: int) -> Batch:
        return Batch(tokens=jax.ShapeDtypeStruct((rows, length), jnp.int32))

    def apply(
        self,
        params: Any,
        batch: Batch,
        *,
        knobs: Knobs | None = None,
        key: jax.Array | None = None,
        capture: tuple[str, ...] = (),
        unembed: bool = True,
    ) -> Outputs:
        hidden = params["table"][batch.tokens]
        return Outputs(hidden, self.unembed(params, hidden) if unembed else None, aux={}, captured={})

    def unembed(self, params: Any, hidden: jax.Array) -> jax.Array:
        return hidden @ params["head"]

    def prefill(self, params: Any, batch: Batch, cache_len: int) -> tuple[jax.Array, Any]:
        last = (batch.segments > 0).sum(1) - 1
        tokens = jnp.take_along_axis(jnp.asarray(batch.tokens), last[:, None], axis=1)[:, 0]
        return self.unembed(params, params["table"][tokens]), last + 1

    def step(self, params: Any, tokens: jax.Array, cache: Any) -> tuple[jax.Array, Any]:
        return self.unembed(params, params["table"][tokens]), cache + 1

    def rows(self, cache: Any, rows_B: jax.Array) -> Any:
        return cache[rows_B]


def counting(start: int, rows: int = 8, length: int = 12) -> Batch:
    """Rows that count upwards, modulo the vocabulary."""
    numbers = (np.arange(length + 1) + np.arange(rows)[:, None] + start) % VOCAB
    return Batch(tokens=numbers[:, :-1].astype(np.int32), targets=numbers[:, 1:].astype(np.int32))


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any, list[float]]:
    """Programs over eight devices, the parameters after 60 steps, and the losses on the way."""
    config = Config(
        model=ModelConfig(vocab_size=VOCAB),
        train=Train(steps=60, batch_size=8),
        optim=Optim(learning_rate=0.1, weight_decay=0.0),
        mesh=Mesh(data=2, fsdp=2, tensor=2),
    )
    layout = make_layout(config.mesh)
    with layout.scope():
        programs = Programs(config, Bigram(), layout)
        state = programs.initial_state()
        step, _ = programs.compile_train_step(counting(0))
        losses = []
        for number in range(60):
            state, metrics = step(state, programs.to_devices(counting(number)), programs.hyper)
            losses.append(float(metrics.loss))
    return programs, state.params, losses


def test_it_keeps_the_contract():
    assert isinstance(Bigram(), Model)


def test_training_knows_the_contract_only(trained: Any):
    _, _, losses = trained
    assert losses[0] > 1.5  # log 8 is 2.1
    assert losses[-1] < 0.05


def test_evaluation_knows_the_contract_only(trained: Any):
    programs, params, _ = trained
    with programs.layout.scope():
        batches = [programs.to_devices(counting(start)) for start in range(3)]
        result = evaluate(programs.evaluation_step, params, batches, programs.hyper.model)
    assert result.tokens == 3 * 8 * 12
    assert result.loss < 0.05


def test_decoding_knows_the_contract_only(trained: Any):
    _, params, _ = trained
    greedy = Sampling(temperature=0)
    texts = generate(Bigram(), params, [[3], [0, 1, 2, 6]], tokens=6, sampling=greedy, seeds=[0, 1], context=None)
    assert texts == [[4, 5, 6, 7, 0, 1], [7, 0, 1, 2, 3, 4]]
