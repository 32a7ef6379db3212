"""ModernBERT. Queries, keys and values are one tensor, gate and value of the feed-forward another; the first layer has
no norm before its attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from txjax.config import Layer, Model
from txjax.interop.fits import arranged
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, Written, windows_of
from txjax.interop.huggingface.heads import Heads
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.heads.masked import Masked
from txjax.nn.heads.none import NoHead
from txjax.nn.mixers.attention import SelfAttention
from txjax.ops.norms import NoNorm
from txjax.ops.positions import Rope
from txjax.schema import ConfigError

GLOBAL, LOCAL = "full_attention", "sliding_attention"  # kinds of layers, and the keys of rope_parameters
EVERY = 3  # a layer that sees all is one of so many, in files without layer_types
ACTIVATIONS = {"gelu": "geglu", "gelu_pytorch_tanh": "geglu_tanh", "silu": "swiglu"}


@dataclass(frozen=True)
class Layers:
    """Which layers see all, how far the others see, on both sides together, and the base of the angles in each kind."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        window = config.get("local_attention", 128) // 2 + 1
        local = SelfAttention(window=window, position=Rope(theta=self._theta(config, LOCAL, 10_000.0)))
        layers = [Layer(mixer=local if kind == LOCAL else SelfAttention()) for kind in self._kinds(config)]
        layers[0] = replace(layers[0], mixer_norm=NoNorm())
        return {"position.rope.theta": self._theta(config, GLOBAL, 160_000.0)} | arranged(layers)

    def _kinds(self, config: Mapping[str, Any]) -> list[str]:
        every, count = config.get("global_attn_every_n_layers", EVERY), config.get("num_hidden_layers", 22)
        given = config.get("layer_types")
        return [LOCAL if i % every else GLOBAL for i in range(count)] if given is None else given

    def _theta(self, config: Mapping[str, Any], kind: str, default: float) -> float:
        """In the form of transformers 5 (rope_parameters), or that of 4, which both read and is written."""
        given = (config.get("rope_parameters") or {}).get(kind) or {}
        if given.get("rope_type", "default") != "default" or config.get("rope_scaling") is not None:
            raise ConfigError(f"config.json: angles of {kind} that are scaled cannot be held, only rope_type='default'")
        old = config.get("global_rope_theta" if kind == GLOBAL else "local_rope_theta", default)
        return given.get("rope_theta", default if old is None else old)

    def to_theirs(self, model: Model) -> dict[str, Any]:
        windows = windows_of(model)
        window, local = next(((w, layer) for w, layer in zip(windows, model.layers, strict=True) if w), (65, Layer()))
        own = getattr(model.mixer_of(local), "position", None) or model.position
        return {
            "layer_types": [GLOBAL if window is None else LOCAL for window in windows],
            "local_attention": 2 * (window - 1),
            "global_rope_theta": getattr(model.position, "theta", None),
            "local_rope_theta": getattr(own, "theta", None),
        }


LAYER = "model.layers.{layer}"
FAMILY = Family(
    model_type="modernbert",
    prefix="model.",
    base=presets.modernbert(vocab_size=50368),
    fields=(
        Field("vocab_size", "vocab_size", 50368),
        Field("hidden_size", "width", 768),
        Field("num_hidden_layers", "num_layers", 22),
        Field("num_attention_heads", "attention.num_heads", 12),
        Field("intermediate_size", "feedforward.dense.hidden", 1152),
        Field("hidden_activation", "feedforward.dense.activation", "gelu", ACTIVATIONS),
        Field("max_position_embeddings", "context", 8192),
        Field("norm_eps", "norm.layer.eps", 1e-5),
        Field("norm_bias", "norm.layer.bias", False),
        Field("attention_bias", "attention.qkv_bias", False),
        Field("attention_bias", "attention.output_bias", False),
        Field("mlp_bias", "feedforward.dense.bias", False),
        Layers(),
        Fixed("classifier_bias", False),
        Fixed("classifier_activation", "gelu"),
        Fixed("decoder_bias", True),
        Fixed("tie_word_embeddings", True),
        Written("pad_token_id", None),  # 50283 else, which a smaller vocabulary does not have
        Heads(
            {"ModernBertModel": NoHead(), "ModernBertForMaskedLM": Masked(bias=False)},
            {},
            own_activation=("ModernBertForMaskedLM",),
        ),
    ),
    table=(
        Row("embedding/w", "model.embeddings.tok_embeddings.weight", "V D -> V D"),
        Row("embedding_norm/gain", "model.embeddings.norm.weight", "D -> D"),
        Row("embedding_norm/bias", "model.embeddings.norm.bias", "D -> D"),
        Row("layers/mixer_norm/gain", f"{LAYER}.attn_norm.weight", "D -> D"),
        Row("layers/mixer_norm/bias", f"{LAYER}.attn_norm.bias", "D -> D"),
        Row("layers/attention/query/w", f"{LAYER}.attn.Wqkv.weight", "(+N H) D -> D N H"),
        Row("layers/attention/key/w", f"{LAYER}.attn.Wqkv.weight", "(+N H) D -> D N H"),
        Row("layers/attention/value/w", f"{LAYER}.attn.Wqkv.weight", "(+N H) D -> D N H"),
        Row("layers/attention/query/b", f"{LAYER}.attn.Wqkv.bias", "(+N H) -> N H"),
        Row("layers/attention/key/b", f"{LAYER}.attn.Wqkv.bias", "(+N H) -> N H"),
        Row("layers/attention/value/b", f"{LAYER}.attn.Wqkv.bias", "(+N H) -> N H"),
        Row("layers/attention/out/w", f"{LAYER}.attn.Wo.weight", "D (N H) -> N H D"),
        Row("layers/attention/out/b", f"{LAYER}.attn.Wo.bias", "D -> D"),
        Row("layers/feedforward_norm/gain", f"{LAYER}.mlp_norm.weight", "D -> D"),
        Row("layers/feedforward_norm/bias", f"{LAYER}.mlp_norm.bias", "D -> D"),
        Row("layers/dense/gate/w", f"{LAYER}.mlp.Wi.weight", "+F D -> D F"),
        Row("layers/dense/in/w", f"{LAYER}.mlp.Wi.weight", "+F D -> D F"),
        Row("layers/dense/gate/b", f"{LAYER}.mlp.Wi.bias", "+F -> F"),
        Row("layers/dense/in/b", f"{LAYER}.mlp.Wi.bias", "+F -> F"),
        Row("layers/dense/out/w", f"{LAYER}.mlp.Wo.weight", "D F -> F D"),
        Row("layers/dense/out/b", f"{LAYER}.mlp.Wo.bias", "D -> D"),
        Row("final_norm/gain", "model.final_norm.weight", "D -> D"),
        Row("final_norm/bias", "model.final_norm.bias", "D -> D"),
        Row("head/dense/w", "head.dense.weight", "E D -> D E"),
        Row("head/norm/gain", "head.norm.weight", "D -> D"),
        Row("head/norm/bias", "head.norm.bias", "D -> D"),
        Row("head/tied/b", "decoder.bias", "V -> V"),
    ),
    copies=(("decoder.weight", "model.embeddings.tok_embeddings.weight"),),
)
