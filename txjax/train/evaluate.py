"""Loss and accuracy over the whole of a split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax

from txjax.batch import Batch
from txjax.config import Config
from txjax.config.data import Split
from txjax.config.train import BestBy
from txjax.data.dataset import Examples
from txjax.data.pipeline import evaluation_batches
from txjax.train.programs import Programs
from txjax.train.step import Sums

PREFIX: dict[Split, str] = {"train": "train", "validation": "val", "test": "test"}  # of metrics


class Evaluation(NamedTuple):
    """loss: nats a token, over every token that counts. accuracy: the share of them whose target has the largest
    logit. tokens: how many those are.
    """

    loss: float
    accuracy: float
    tokens: int

    def shortfall(self, by: BestBy) -> float:
        """What train.best_by compares: the less, the better."""
        return shortfall(by, self.loss if by == "loss" else self.accuracy)

    def figures(self, split: Split, target_bytes: int) -> dict[str, float]:
        """As metrics: perplexity is exp(loss); bits per byte divides by the bytes that the tokens stand for, so that
        it does not depend on the tokenizer, and is left out where they are no text.
        """
        figures = {
            "loss": self.loss,
            "accuracy": self.accuracy,
            "perplexity": math.exp(min(self.loss, 700.0)),
            "tokens": self.tokens,
        }
        if target_bytes:
            figures["bits_per_byte"] = self.loss * self.tokens / math.log(2) / target_bytes
        return {f"{PREFIX[split]}/{name}": value for name, value in figures.items()}


def shortfall(by: BestBy, figure: float | None) -> float:
    """A loss as it is, the share that an accuracy leaves; nan where metrics.jsonl has none."""
    return math.nan if figure is None else figure if by == "loss" else 1.0 - figure


def evaluate_split(programs: Programs, params: Any, examples: Examples) -> Evaluation:
    """Of a whole split, such as `dataset.split("test")`, inside the layout's scope."""
    batches = batches_of(examples, programs.config, programs.layout.batch_devices)
    moved = map(programs.to_devices, batches)
    return evaluate(programs.evaluation_step, params, moved, programs.hyper.model)


def evaluate(step: Callable[[Any, Batch, Any], Sums], params: Any, batches: Iterable[Batch], knobs: Any) -> Evaluation:
    """Sums over all batches, divided once by the sum of weights: the same for every batch size.

    Batches are added in float64 on the host.
    """
    parts = jax.device_get([step(params, batch, knobs) for batch in batches])
    loss, right, count = (math.fsum(float(x) for x in column) for column in zip(*parts, strict=True))
    return Evaluation(loss / max(count, 1.0), right / max(count, 1.0), round(count))


def batches_of(examples: Examples, config: Config, devices: int) -> Iterator[Batch]:
    """This process's batches of a split, in the size that the config evaluates in."""
    return evaluation_batches(
        examples,
        batch_size=evaluation_batch_size(config, devices, len(examples)),
        process_index=jax.process_index(),
        process_count=jax.process_count(),
    )


def evaluation_batch_size(config: Config, devices: int, examples: int) -> int:
    """train.evaluate_batch_size, or about 4096 tokens a device, never more than there is; a multiple of the devices."""
    wanted = config.train.evaluate_batch_size or max(1, 4096 // config.context) * devices
    return math.ceil(min(wanted, examples) / devices) * devices
