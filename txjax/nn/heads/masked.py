"""The head of a masked language model, with or without next-sentence prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.batch import Batch
from txjax.config.model import Model
from txjax.config.parts import Head
from txjax.nn.context import Context, add_figure, add_loss, sow
from txjax.nn.heads.pooler import Pooler
from txjax.nn.heads.tied import Tied, TiedModule
from txjax.nn.linear import Linear
from txjax.nn.norm import Norm
from txjax.ops.activations import ACTIVATIONS, Plain
from txjax.ops.losses import correct, cross_entropy
from txjax.schema import ConfigError, require


@dataclass(frozen=True)
class Masked(Head, kind="masked"):
    """n(f(hidden W + b)) table^T + c, with the embedding's table, a bias c for each id, and n the model's kind of norm;
    W goes from the model's width to the table's. Devlin et al. 2019 and the authors' code; Lan et al. 2020.

    bias: of the map by W.
    next_sentence: adds a pooler and a classifier that say from each row's first token whether its second sentence
        follows the first one, batch.labels; training adds their cross-entropy. A row's counts as often as the row has
        scored tokens: sum_b w_b nsp_b with w_b = sum_t weights[b, t]. Divided by the sum of all weights, as the whole
        loss is, it is a mean over rows, and sums over micro-batches and devices as the rest does.
    """

    activation: Plain = "gelu"
    next_sentence: bool = False
    bias: bool = True

    tied: ClassVar[bool] = True
    generates: ClassVar[bool] = False

    @property
    def labelled(self) -> bool:
        return self.next_sentence

    def validate(self, model: Model) -> None:
        require(
            model.embedding.reads == "ids",
            f"head=masked needs the table of an embedding of ids, got embedding={model.embedding.kind}",
        )
        require(
            not model.norm.statistics(),
            f"head=masked normalises each token by itself, got norm={model.norm.kind}: use layer or rms",
        )

    def module(self, model: Model, name: str) -> MaskedModule:
        return MaskedModule(self, model, name=name)

    def read(self, model: Model, x_BTD: Array, batch: Batch, context: Any) -> Array:
        if self.next_sentence:
            NextSentence(model, name="next_sentence")(x_BTD, batch, context)
        return x_BTD


class MaskedModule(nn.Module):
    head: Masked
    model: Model

    @nn.compact
    def __call__(self, hidden: Float[Array, "... D"], table_VE: Float[Array, "V E"]) -> Float[Array, "... V"]:
        shape = (self.model.width, table_VE.shape[1])
        function, _ = ACTIVATIONS[self.head.activation]
        hidden = function(Linear(self.model, shape, ("embed", "mlp"), bias=self.head.bias, name="dense")(hidden))
        hidden = Norm(self.model.norm, name="norm")(hidden)
        return TiedModule(Tied(bias=True), self.model, projects=False, name="tied")(hidden, table_VE)


class NextSentence(nn.Module):
    """Logits of two classes, [B, 2], captured as next_sentence; of HF's weights 0 says that the sentence follows."""

    model: Model

    @nn.compact
    def __call__(self, x_BTD: Float[Array, "B T D"], batch: Batch, context: Context) -> None:
        pooled_BD = Pooler(self.model, name="pooler")(x_BTD, batch.segments)[:, 0]
        logits_B2 = Linear(self.model, (self.model.width, 2), ("embed", "classes"), bias=True, name="classifier")(
            pooled_BD
        )
        sow(self, context, "next_sentence", logits_B2)
        if batch.labels is None:
            if context.train:
                raise ConfigError(
                    "head.masked.next_sentence=true learns from batch.labels, which the data does not give: use "
                    "data.objective.masked.form=pair, or head.masked.next_sentence=false"
                )
            return
        weights_BT = jnp.ones(batch.tokens.shape) if batch.weights is None else batch.weights
        weights_B = weights_BT.sum(1)
        labels_B = jnp.asarray(batch.labels)
        total = jnp.maximum(weights_B.sum(), 1e-9)
        add_loss(self, "next_sentence_loss", (weights_B * cross_entropy(logits_B2, labels_B)).sum())
        add_figure(self, "next_sentence_accuracy", (weights_B * correct(logits_B2, labels_B)).sum() / total)
