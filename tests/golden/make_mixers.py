"""Writes mixers.safetensors: tiny random attention layers of transformers, and a batch norm of torch, with their inputs
and outputs. Needs torch and transformers: python tests/golden/make_mixers.py

A case's tensors are CASE/x (2, T, D), CASE/y, and CASE/LAYER/NAME, weights by their own names. Its layers follow one on
the other without norms or residual connections.
"""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from transformers import DeepseekV3Config, Gemma3TextConfig, GptOssConfig
from transformers.masking_utils import create_causal_mask, create_sliding_window_causal_mask
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention, Gemma3RotaryEmbedding
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssRotaryEmbedding

B, T, D = 2, 9, 16
Tensors = dict[str, torch.Tensor]
COMMON = {
    "hidden_size": D,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "attn_implementation": "eager",
    "max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 8}


def layers_of(config, attention, rotary, count: int = 1) -> Tensors:
    """A case: attention layers, each with the mask and the angles that the model itself would give it."""
    x = torch.randn(B, T, D)
    positions = torch.arange(T)[None]
    masking = {"config": config, "inputs_embeds": x, "attention_mask": None, "position_ids": positions}
    masking["past_key_values"] = None
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * count
    angles_of = rotary(config)
    found = {"x": x}
    y = x
    for number in range(count):
        layer = attention(config, number).eval()
        for name, weight in layer.named_parameters():
            torch.nn.init.normal_(weight, std=0.5 if weight.ndim < 2 else weight.shape[-1] ** -0.5)
            found[f"{number}/{name}"] = weight.detach().clone()
        local = kinds[number] == "sliding_attention"
        mask = (create_sliding_window_causal_mask if local else create_causal_mask)(**masking)
        by_type = isinstance(config, Gemma3TextConfig)
        angles = angles_of(y, positions, kinds[number]) if by_type else angles_of(y, positions)
        y = layer(hidden_states=y, position_embeddings=angles, attention_mask=mask, position_ids=positions)[0]
    return {**found, "y": y}


def deepseek(q_rank: int | None, **rope: float) -> Tensors:
    config = DeepseekV3Config(
        **COMMON,
        num_key_value_heads=4,
        q_lora_rank=q_rank,
        kv_lora_rank=10,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=5,
        rope_parameters=YARN | rope if rope else {"rope_type": "default", "rope_theta": 1e4},
    )
    return layers_of(config, DeepseekV3Attention, DeepseekV3RotaryEmbedding)


def gpt_oss() -> Tensors:
    config = GptOssConfig(
        **COMMON,
        num_key_value_heads=2,
        head_dim=6,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
    )
    return layers_of(config, GptOssAttention, GptOssRotaryEmbedding, 2)


def gemma3() -> Tensors:
    config = Gemma3TextConfig(
        **COMMON,
        num_key_value_heads=2,
        head_dim=6,
        query_pre_attn_scalar=6,
        sliding_window=3,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0},
        },
    )
    return layers_of(config, Gemma3Attention, Gemma3RotaryEmbedding, 2)


def batch_norm() -> Tensors:
    """Two batches in training, then the first one again in evaluation."""
    norm = torch.nn.BatchNorm1d(D)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = torch.randn(2, B, T, D) * 2 + 1
    tensors = {"x": x, "0/weight": norm.weight.detach().clone(), "0/bias": norm.bias.detach().clone()}
    y = [norm(batch.reshape(-1, D)).reshape(batch.shape) for batch in x]
    norm.eval()
    y.append(norm(x[0].reshape(-1, D)).reshape(x[0].shape))
    return tensors | {"y": torch.stack(y), "0/mean": norm.running_mean, "0/variance": norm.running_var}


def main() -> None:
    torch.manual_seed(0)
    cases = {
        "deepseek": deepseek(7),
        "deepseek_whole_queries": deepseek(None),
        "deepseek_yarn": deepseek(7, mscale=0.707, mscale_all_dim=0.707),
        "gpt_oss": gpt_oss(),
        "gemma3": gemma3(),
        "batch_norm": batch_norm(),
    }
    tensors = {
        f"{case}/{name}": tensor.detach().contiguous()
        for case, found in cases.items()
        for name, tensor in found.items()
    }
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    save_file(tensors, Path(__file__).with_name("mixers.safetensors"), metadata=versions)


if __name__ == "__main__":
    main()
