"""The loss over a validation set: every example once, whatever the batch size and the devices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import log_softmax

from txjax.batch import Batch
from txjax.config import Config, Model
from txjax.data.chunking.truncate import Truncate
from txjax.data.documents import Documents
from txjax.data.pipeline import evaluation_batches
from txjax.data.tokenizers.bytes import Bytes
from txjax.models import build
from txjax.parallel import make_layout
from txjax.train.evaluate import Evaluation, evaluate, evaluation_batch_size
from txjax.train.programs import Programs

CODEC = Bytes().build([])
CONFIG = Config(model=Model(width=16, num_layers=1, context=12, vocab_size=CODEC.vocab_size))
TEXTS = ["to be", "or not", "that is", "the question", "whether it is", "n", "no", "bl", "er in the mind", "to suf"]


def example_by_example(texts: list[str], params: object) -> tuple[float, int]:
    """Summed loss and number of targets, each text alone and without padding, its separators around it."""
    model, total, count = build(CONFIG.model), 0.0, 0
    for text in texts:
        ids = np.array([CODEC.separator, *CODEC.encode(text), CODEC.separator][:13])
        logits = np.asarray(model.apply(params, Batch(tokens=ids[None, :-1])).logits[0], np.float64)  # type: ignore
        total -= log_softmax(logits, -1)[np.arange(len(ids) - 1), ids[1:]].sum()
        count += len(ids) - 1
    return total, count


class Traced:
    """A model that counts how often a program is made of its forward pass."""

    def __init__(self, model: Any) -> None:
        self.model, self.passes = model, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def apply(self, *args: Any, **kwargs: Any) -> Any:
        self.passes += 1
        return self.model.apply(*args, **kwargs)


@pytest.mark.bug("google/uncertainty-baselines#303", "huggingface/transformers#41898", "facebookresearch/lingua#46")
@pytest.mark.bug("jax-ml/jax#817")
@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize(("examples", "batch_sizes"), [(10, (1, 3, 4, 8)), (3, (8, None))])
def test_evaluation_equals_one_example_after_another(devices: int, examples: int, batch_sizes: tuple[int | None, ...]):
    documents = Documents.join((CODEC.encode(text) for text in TEXTS[:examples]), CODEC)
    sequences = Truncate().chunk(documents, 12, "validation")
    model = Traced(build(CONFIG.model))
    programs = Programs(CONFIG, model, make_layout(CONFIG.mesh, jax.devices()[:devices]))  # type: ignore[arg-type]
    found, sizes = [], []
    with programs.layout.scope():
        params = programs.initial_state().params
        for size in batch_sizes:
            config = replace(CONFIG, train=replace(CONFIG.train, evaluate_batch_size=size))
            sizes.append(evaluation_batch_size(config, devices, examples))
            batches = evaluation_batches(sequences, batch_size=sizes[-1], process_index=0, process_count=1)
            moved = map(programs.to_devices, batches)
            found.append(evaluate(programs.evaluation_step, params, moved, programs.hyper.model))
    # a batch size is a program, and an odd last batch is none
    assert model.passes == len(set(sizes))
    total, count = example_by_example(TEXTS[:examples], jax.device_put(jax.device_get(params), jax.devices()[0]))
    for evaluation in found:
        assert evaluation.tokens == count
        assert evaluation.loss == pytest.approx(total / count, rel=1e-6)


def test_perplexity_and_bits_per_byte_by_hand():
    """Four tokens at 3 ln 2 nats are 12 bits; over 6 bytes of text that is 2 bits a byte."""
    result = Evaluation(loss=3 * math.log(2), accuracy=0.25, tokens=4)
    plain = {"loss": 3 * math.log(2), "accuracy": 0.25, "perplexity": 8.0, "tokens": 4}
    assert result.figures("test", target_bytes=0) == pytest.approx({f"test/{k}": v for k, v in plain.items()})
    plain["bits_per_byte"] = 2.0
    assert result.figures("validation", target_bytes=6) == pytest.approx({f"val/{k}": v for k, v in plain.items()})
    assert math.isfinite(Evaluation(1e9, 0, 1).figures("validation", 1)["val/perplexity"])
    assert math.isnan(Evaluation(math.nan, 0, 1).figures("validation", 1)["val/perplexity"])


@pytest.mark.parametrize(
    ("wanted", "devices", "sequences", "size"),
    [(None, 1, 1000, 341), (None, 4, 10_000, 1364), (None, 4, 5, 8), (10, 1, 100, 10), (10, 8, 100, 16), (64, 1, 5, 5)],
)
def test_the_size_of_an_evaluation_batch(wanted: int | None, devices: int, sequences: int, size: int):
    config = replace(CONFIG, train=replace(CONFIG.train, evaluate_batch_size=wanted))
    assert evaluation_batch_size(config, devices, sequences) == size
