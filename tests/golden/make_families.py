"""Write tests/golden/families/NAME: tiny models of transformers as it saves them, and what they compute.

python tests/golden/make_families.py        with the extra `oracle` (torch 2.13, transformers 5.24)

config.json and model.safetensors (bfloat16) are transformers'; expected.safetensors holds tokens, logits, the hidden
states after each layer, what is written after a prompt, and of some families a digest of each gradient.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "oracle"))

import oracle_theirs as theirs  # noqa: E402
from oracle_cases import CASES, digest  # noqa: E402

NAMES = (
    "gpt2-square", "llama3", "llama-tied", "qwen2-windows", "mistral", "qwen3", "gemma2", "gpt_neox", "opt", "bloom",
    "phi3", "mixtral", "qwen3_moe", "deepseek_v3", "bert", "bert-classes", "roberta", "electra", "electra-generator",
    "albert", "albert-pretraining", "modernbert", "vit", "t5", "t5-v1.1", "bart", "olmo2", "gpt_oss", "marian",
    "marian-own", "switch",
)  # fmt: skip
WITH_GRADIENTS = (
    "gpt2-square", "gemma2", "deepseek_v3", "bert", "electra-generator", "albert", "t5", "bart", "olmo2", "gpt_oss",
    "marian", "switch",
)  # fmt: skip


def make(name: str) -> None:
    folder = HERE / "families" / name
    folder.mkdir(parents=True, exist_ok=True)
    theirs.make(CASES[name], folder, dtype=torch.bfloat16)
    (folder / "generation_config.json").unlink(missing_ok=True)
    found = theirs.outputs(CASES[name], folder)
    kept: dict[str, np.ndarray] = {}
    for key, value in found.items():
        if not key.startswith("grad."):
            kept[key] = value
        elif name in WITH_GRADIENTS:
            kept[key] = digest(value)
    save_file({key: np.ascontiguousarray(value) for key, value in kept.items()}, folder / "expected.safetensors")


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        make(name)
