"""ViT. Its projection of patches is a convolution whose kernel is a patch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txjax.config import Model
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.embeddings.patches import Patches
from txjax.nn.heads.classes import Classes
from txjax.nn.heads.pooler import PoolerHead

ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "relu": "relu"}
LAYER = "vit.encoder.layer.{layer}"


@dataclass(frozen=True)
class Image:
    """The image, which is square: as many patches as the model has positions, less the class token's."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        size, side = config.get("image_size", 224), config.get("patch_size", 16)
        patches = Patches(side=side, channels=config.get("num_channels", 3), class_token=True)
        return {"embedding": patches, "context": (size // side) ** 2}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        side, channels = getattr(model.embedding, "side", 1), getattr(model.embedding, "channels", 1)
        return {"image_size": math.isqrt(model.context) * side, "patch_size": side, "num_channels": channels}


FAMILY = Family(
    model_type="vit",
    prefix="vit.",
    base=presets.vit(),
    fields=(
        Field("hidden_size", "width", 768),
        Field("num_hidden_layers", "num_layers", 12),
        Field("num_attention_heads", "attention.num_heads", 12),
        Field("intermediate_size", "feedforward.dense.hidden", 3072),
        Field("hidden_act", "feedforward.dense.activation", "gelu", ACTIVATIONS),
        Field("layer_norm_eps", "norm.layer.eps", 1e-12),
        Field("qkv_bias", "attention.qkv_bias", True),
        Image(),
        Heads({"ViTModel": PoolerHead(), "ViTForImageClassification": Classes()}, ACTIVATIONS),
    ),
    table=(
        Row("embedding/class_token/vector", "vit.embeddings.cls_token", "1 R D -> R D"),
        Row("embedding/project/w", "vit.embeddings.patch_embeddings.projection.weight", "D C Y X -> C Y X D"),
        Row("embedding/project/b", "vit.embeddings.patch_embeddings.projection.bias", "D -> D"),
        Row("position/table", "vit.embeddings.position_embeddings", "1 C D -> C D"),
        Row("layers/mixer_norm/gain", f"{LAYER}.layernorm_before.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{LAYER}.layernorm_before.bias", "D -> D"),
        Row("layers/attention/query/w", f"{LAYER}.attention.attention.query.weight", "(N H) D -> D N H"),
        Row("layers/attention/query/b", f"{LAYER}.attention.attention.query.bias", "(N H) -> N H"),
        Row("layers/attention/key/w", f"{LAYER}.attention.attention.key.weight", "(K H) D -> D K H"),
        Row("layers/attention/key/b", f"{LAYER}.attention.attention.key.bias", "(K H) -> K H"),
        Row("layers/attention/value/w", f"{LAYER}.attention.attention.value.weight", "(K H) D -> D K H"),
        Row("layers/attention/value/b", f"{LAYER}.attention.attention.value.bias", "(K H) -> K H"),
        Row("layers/attention/out/w", f"{LAYER}.attention.output.dense.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{LAYER}.attention.output.dense.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{LAYER}.layernorm_after.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{LAYER}.layernorm_after.bias", "D -> D"),
        Row("layers/dense/in/w", f"{LAYER}.intermediate.dense.weight", "F D -> D F"),
        Row("layers/dense/in/b", f"{LAYER}.intermediate.dense.bias", "F -> F"),
        Row("layers/dense/out/w", f"{LAYER}.output.dense.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{LAYER}.output.dense.bias", "D -> D"),
        Row("final_norm/gain", "vit.layernorm.weight", "D -> D"),
        Row("final_norm/bias", "vit.layernorm.bias", "D -> D"),
        Row("pooler/dense/w", "vit.pooler.dense.weight", "E D -> D E"),
        Row("pooler/dense/b", "vit.pooler.dense.bias", "E -> E"),
        Row("head/w", "classifier.weight", "C D -> D C"),
        Row("head/b", "classifier.bias", "C -> C"),
    ),
    free=("vocab_size",),
)
