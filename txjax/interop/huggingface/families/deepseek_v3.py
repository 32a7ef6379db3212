"""DeepSeek-V3 and R1: latent attention, dense layers first, then mixtures with shared experts and a balancing bias.

The layer that predicts the token after the next, which files hold behind the last one, is left out, as transformers
does. Weights in 8 bits must be made wide before.
"""

from collections.abc import Mapping
from typing import Any

from txjax.config import Layer, Model
from txjax.interop.huggingface.families import llama
from txjax.interop.huggingface.family import Family
from txjax.interop.huggingface.fields import Field, Fixed, Rotary, Same
from txjax.interop.table import Row
from txjax.models import presets
from txjax.nn.feedforwards.dense import Dense
from txjax.nn.mixers.latent import Latent

PAIRS = {True: "interleaved", False: "half"}
ATTENTION = "model.layers.{layer}.self_attn"
MLP = "model.layers.{layer}.mlp"
EXPERT = f"{MLP}.experts.{{E}}"


class HeadWidths:
    """A head's width is the sum of its parts."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        plain, rotated = config.get("qk_nope_head_dim", 128), config.get("qk_rope_head_dim", 64)
        return {"attention.head_dim": plain + rotated, "mixer.latent.rope_dim": rotated}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        if not isinstance(model.mixer, Latent):
            return {}
        plain, rotated, value = model.mixer.widths(model)
        return {"qk_nope_head_dim": plain, "qk_rope_head_dim": rotated, "v_head_dim": value}


class DenseFirst:
    """How many layers before the mixtures are dense."""

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        dense = Dense(hidden=config.get("intermediate_size", 18432), activation="swiglu", bias=False)
        return {"first_layers": (Layer(feedforward=dense),) * config.get("first_k_dense_replace", 3)}

    def to_theirs(self, model: Model) -> dict[str, Any]:
        feedforwards = [model.feedforward_of(layer) for layer in model.layers]
        dense = [feedforward for feedforward in feedforwards if isinstance(feedforward, Dense)]
        hidden = dense[0].width(model.width) if dense else 18432
        return {"intermediate_size": hidden, "first_k_dense_replace": len(dense)}


FAMILY = Family(
    model_type="deepseek_v3",
    architecture="DeepseekV3ForCausalLM",
    prefix="model.",
    base=presets.deepseek_v3(vocab_size=129_280),
    fields=(
        *(field for field in llama.SIZES if field.theirs not in ("head_dim", "num_key_value_heads")),
        Same("num_key_value_heads", "num_attention_heads", "attention.num_heads"),
        HeadWidths(),
        Field("q_lora_rank", "mixer.latent.q_rank", 1536),
        Field("kv_lora_rank", "mixer.latent.kv_rank", 512),
        Field("v_head_dim", "mixer.latent.value_dim", 128),
        DenseFirst(),
        Field("n_routed_experts", "feedforward.mixture.num_experts", 256, also="num_local_experts"),
        Field("n_shared_experts", "feedforward.mixture.num_shared", 1),
        Field("num_experts_per_tok", "feedforward.mixture.top_k", 8),
        Field("n_group", "feedforward.mixture.num_groups", 8),
        Field("topk_group", "feedforward.mixture.top_groups", 4),
        Field("norm_topk_prob", "feedforward.mixture.renormalise", True),
        Field("routed_scaling_factor", "feedforward.mixture.routed_scale", 2.5),
        Field("moe_intermediate_size", "feedforward.mixture.hidden", 2048),
        Fixed("scoring_func", "sigmoid"),
        Fixed("topk_method", "noaux_tc"),
        Fixed("moe_layer_freq", 1),
        Fixed("hidden_act", "silu"),
        Fixed("attention_bias", False),
        Field("rope_interleave", "position.rope.pairs", True, PAIRS),
        Rotary(mscale=("mscale", "mscale_all_dim")),
    ),
    table=(
        *llama.OUTER,
        Row("layers/latent/query/w", f"{ATTENTION}.q_proj.weight", "(N H) D -> D N H"),
        Row("layers/latent/query_down/w", f"{ATTENTION}.q_a_proj.weight", "R D -> D R"),
        Row("layers/latent/query_norm/gain", f"{ATTENTION}.q_a_layernorm.weight", "R -> R"),
        Row("layers/latent/query_up/w", f"{ATTENTION}.q_b_proj.weight", "(N H) R -> R N H"),
        Row("layers/latent/kv_down/w", f"{ATTENTION}.kv_a_proj_with_mqa.weight", "+C D -> D C"),
        Row("layers/latent/key_rope/w", f"{ATTENTION}.kv_a_proj_with_mqa.weight", "+H D -> D H"),
        Row("layers/latent/kv_norm/gain", f"{ATTENTION}.kv_a_layernorm.weight", "C -> C"),
        Row("layers/latent/key_up/w", f"{ATTENTION}.kv_b_proj.weight", "(N +H) C -> C N H"),
        Row("layers/latent/value_up/w", f"{ATTENTION}.kv_b_proj.weight", "(N +H) C -> C N H"),
        Row("layers/latent/out/w", f"{ATTENTION}.o_proj.weight", "D (N H) -> N H D"),
        *llama.NORMS,
        *(row for row in llama.DENSE if row.ours.endswith("/w")),
        Row("layers/mixture/router/w", f"{MLP}.gate.weight", "E D -> D E"),
        Row("layers/mixture/bias", f"{MLP}.gate.e_score_correction_bias", "E -> E"),
        Row("layers/mixture/gate/w", f"{EXPERT}.gate_proj.weight", "F D -> E D F"),
        Row("layers/mixture/in/w", f"{EXPERT}.up_proj.weight", "F D -> E D F"),
        Row("layers/mixture/out/w", f"{EXPERT}.down_proj.weight", "D F -> E F D"),
        Row("layers/mixture/shared/gate/w", f"{MLP}.shared_experts.gate_proj.weight", "F D -> D F"),
        Row("layers/mixture/shared/in/w", f"{MLP}.shared_experts.up_proj.weight", "F D -> D F"),
        Row("layers/mixture/shared/out/w", f"{MLP}.shared_experts.down_proj.weight", "D F -> F D"),
    ),
    copies=llama.COPIES,
    buffers=llama.BUFFERS,
)
