"""Switch Transformers: T5 with mixtures in the place of some layers' dense networks, and one expert a token.

Theirs leaves out what is beyond expert_capacity tokens of a row at one expert, and does so when it evaluates too, where
ours leaves out nothing. Both compute the same of rows of so many tokens at most, and of whatever the decoder writes
with a cache, which is one token at a time. What is written has room for a row of the model's whole context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Layer, Model
from txjax.interop.fits import arranged, shortest
from txjax.interop.huggingface.families import t5
from txjax.interop.huggingface.families.bart import ACTIVATIONS
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import ABSENT, Field, Fixed
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.feedforwards.mixture import Mixture

ACTIVATION = Field("dense_act_fn", "activation", "relu", ACTIVATIONS)


@dataclass(frozen=True)
class Layers:
    """The layers of both sides, with what their feed-forwards have in common."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        expert = {"hidden": config.get("d_ff", 2048), "bias": False} | ACTIVATION.to_ours(config)
        dense = Layer(feedforward=Dense(**expert))
        mixture = Layer(feedforward=Mixture(config.get("num_experts", 8), 1, renormalise=False, **expert))
        count = config.get("num_layers", 12)
        own = config.get("num_decoder_layers", 12)
        encoder, decoder = (
            [mixture if sparse else dense for sparse in _sparse(config, side, number)]
            for side, number in (("encoder", count), ("decoder", count if own is None else own))
        )
        first, pattern = shortest(encoder)
        of_encoder = {"encoder.num_layers": count, "encoder.first_layers": first, "encoder.pattern": pattern}
        return of_encoder | {"num_layers": len(decoder)} | arranged(decoder)

    def to_theirs(self, model: Model) -> dict[str, Any]:
        sides = {"encoder": model if model.encoder is None else model.encoder_model, "decoder": model}
        networks = {side: [own.feedforward_of(layer) for layer in own.layers] for side, own in sides.items()}
        said: dict[str, Any] = {"expert_capacity": model.context}
        for side, count in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
            sparse = [isinstance(network, Mixture) for network in networks[side]]
            said |= {count: len(sparse), f"num_sparse_{side}_layers": sum(sparse), f"{side}_sparse_step": _step(sparse)}
        return said | _common([*networks["encoder"], *networks["decoder"]], model.width)


def _sparse(config: Mapping[str, Any], side: str, count: int) -> list[bool]:
    """Which of a side's layers have a mixture."""
    step, number = config.get(f"{side}_sparse_step"), config.get(f"num_sparse_{side}_layers", 3)
    if step is None:
        step = count // number if number else count
    return _by_step(step, count)


def _by_step(step: int, count: int) -> list[bool]:
    """All for a step of 1, of others the second and each that many after it."""
    return [step == 1 or (step > 1 and layer % step == 1) for layer in range(count)]


def _step(sparse: list[bool]) -> int:
    """The step that gives these layers; where none does, that of a model that differs."""
    count = len(sparse)
    return next((step for step in range(1, count + 1) if _by_step(step, count) == sparse), 1)


def _common(networks: list[Any], width: int) -> dict[str, Any]:
    """What their config says once of all dense networks and experts; of unlike ones it is the first's."""
    experts = [network.expert if isinstance(network, Mixture) else network for network in networks]
    dense = next((expert for expert in experts if isinstance(expert, Dense)), None)
    mixture = next((network for network in networks if isinstance(network, Mixture)), None)
    words = {ours: word for word, ours in reversed(ACTIVATIONS.items())}
    return {
        "d_ff": ABSENT if dense is None else dense.width(width),
        "dense_act_fn": ABSENT if dense is None else words.get(dense.activation, ABSENT),
        "num_experts": ABSENT if mixture is None else mixture.num_experts,
    }


def feedforward(ours: str, theirs: str) -> tuple[Row, ...]:
    expert = f"{theirs}.mlp.experts.expert_{{E}}"
    return (
        Row(f"{ours}/dense/in/w", f"{theirs}.mlp.wi.weight", "F D -> D F"),
        Row(f"{ours}/dense/out/w", f"{theirs}.mlp.wo.weight", "D F -> F D"),
        Row(f"{ours}/mixture/router/w", f"{theirs}.mlp.router.classifier.weight", "E D -> D E"),
        Row(f"{ours}/mixture/in/w", f"{expert}.wi.weight", "F D -> E D F"),
        Row(f"{ours}/mixture/out/w", f"{expert}.wo.weight", "D F -> E F D"),
    )


FAMILY = Family(
    model_type="switch_transformers",
    architecture="SwitchTransformersForConditionalGeneration",
    base=presets.switch(vocab_size=32128),
    fields=(
        *t5.sizes(width=768, num_heads=12),
        Layers(),
        Fixed("tie_word_embeddings", True),
        Fixed("router_bias", False),
        Fixed("router_dtype", "float32"),
        Fixed("is_gated_act", False),  # of older files
    ),
    table=t5.table(feedforward),
    copies=t5.COPIES,
    buffers=t5.BUFFERS,
    free=t5.FREE,
)
