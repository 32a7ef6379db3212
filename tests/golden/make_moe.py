"""Write moe_mixtral.safetensors and moe_deepseek_v3.safetensors: mixtures of transformers with random weights.

python tests/golden/make_moe.py        with the extra `oracle` (torch 2.13, transformers 5.24)

Each holds the block's parameters by transformers' names, an input x, the output y, the experts chosen and their
weights, and the gradient of sum(y * towards) with respect to x and to the router.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import DeepseekV3Config, MixtralConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3MoE
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

HERE = Path(__file__).parent
WIDTH, HIDDEN, SHAPE = 8, 12, (2, 9, 8)

MIXTRAL = MixtralConfig(hidden_size=WIDTH, intermediate_size=HIDDEN, num_local_experts=6, num_experts_per_tok=2)
DEEPSEEK = DeepseekV3Config(
    hidden_size=WIDTH, moe_intermediate_size=HIDDEN, n_routed_experts=12, num_experts_per_tok=4, n_shared_experts=2,
    n_group=4, topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5,
)  # fmt: skip


def record(block: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in [*block.parameters(), *block.buffers()]:
            tensor.copy_(0.4 * torch.randn(tensor.shape, generator=draws))
    x = torch.randn(SHAPE, generator=draws, requires_grad=True)
    towards = torch.randn(SHAPE, generator=draws)
    y = block(x)
    (y * towards).sum().backward()
    _, weights, experts = block.gate(x)
    found = {"x": x, "towards": towards, "y": y, "dx": x.grad, "d_router": block.gate.weight.grad}
    found |= {"experts": experts.to(torch.int32).reshape(*SHAPE[:2], -1), "weights": weights.reshape(*SHAPE[:2], -1)}
    found |= {f"block.{name}": tensor for name, tensor in block.state_dict().items()}
    return {name: tensor.detach().contiguous().clone() for name, tensor in found.items()}


def main() -> None:
    for config in (MIXTRAL, DEEPSEEK):
        config._experts_implementation = "eager"
    blocks = {"mixtral": MixtralSparseMoeBlock(MIXTRAL), "deepseek_v3": DeepseekV3MoE(DEEPSEEK)}
    for seed, (name, block) in enumerate(blocks.items()):
        save_file(record(block.float(), seed), HERE / f"moe_{name}.safetensors")


if __name__ == "__main__":
    main()
