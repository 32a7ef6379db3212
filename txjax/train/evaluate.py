"""Loss over the whole of a validation set."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax

from txjax.batch import Batch


class Evaluation(NamedTuple):
    """loss: nats a token, over every token that counts. tokens: how many those are."""

    loss: float
    tokens: int

    def figures(self, target_bytes: int) -> dict[str, float]:
        """As metrics: perplexity is exp(loss); bits per byte divides by the bytes that the tokens stand for, so that
        it does not depend on the tokenizer.
        """
        return {
            "val/loss": self.loss,
            "val/perplexity": math.exp(min(self.loss, 700.0)),
            "val/bits_per_byte": self.loss * self.tokens / math.log(2) / max(target_bytes, 1),
            "val/tokens": self.tokens,
        }


def evaluate(
    step: Callable[[Any, Batch, Any], tuple[Any, Any]], params: Any, batches: Iterable[Batch], knobs: Any
) -> Evaluation:
    """Sum of losses over all batches, divided once by the sum of weights: the same for every batch size.

    Batches are added in float64 on the host.
    """
    sums = [step(params, batch, knobs) for batch in batches]
    losses, tokens = zip(*jax.device_get(sums), strict=True)
    count = math.fsum(float(t) for t in tokens)
    return Evaluation(math.fsum(float(x) for x in losses) / max(count, 1.0), round(count))
