"""Writes beam.json: what transformers' beam search finds with a small model that is a table.

    python tests/golden/make_beam.py        needs torch and transformers: pip install 'txjax[oracle]'

The logits of the next id are a table's, by the last two ids, and another's, by the length of the text; without the
second one texts that visit the same places in another order would tie. The tables are written in thousandths.
The last id that max_length leaves room for has to be the end, at its own probability.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

VOCAB, END, PERIOD, NEW = 9, 0, 7, 12
PROMPTS = [[1, 2], [3, 4], [8, 8], [5, 1]]
CASES = [
    {"size": size, "length_penalty": alpha, "stop": stop}
    for size in (2, 4)
    for alpha, stop in [
        (0.0, "certain"),
        (0.6, "certain"),
        (2.0, "certain"),
        (0.0, "full"),
        (0.6, "full"),
        (2.0, "full"),
    ]
]


class Tables(PreTrainedModel, GenerationMixin):
    config_class = PretrainedConfig

    def __init__(self, by_last: np.ndarray, by_length: np.ndarray) -> None:
        super().__init__(PretrainedConfig(vocab_size=VOCAB, num_hidden_layers=1, hidden_size=1, num_attention_heads=1))
        self.by_last = torch.nn.Parameter(torch.tensor(by_last / 1000, dtype=torch.float32))
        self.by_length = torch.nn.Parameter(torch.tensor(by_length / 1000, dtype=torch.float32))
        self.post_init()

    def forward(self, input_ids: torch.Tensor, **_: Any) -> CausalLMOutput:
        one, two = input_ids[:, -2], input_ids[:, -1]
        logits = self.by_last[one, two] + self.by_length[input_ids.shape[1] % PERIOD]
        return CausalLMOutput(logits=logits[:, None])


def found(model: Tables, size: int, length_penalty: float, stop: str) -> list[list[dict[str, Any]]]:
    longest = len(PROMPTS[0]) + NEW

    def allowed(_: int, text: torch.Tensor) -> list[int]:
        return [END] if len(text) == longest - 1 else list(range(VOCAB))

    out = model.generate(
        torch.tensor(PROMPTS),
        attention_mask=torch.ones(len(PROMPTS), 2, dtype=torch.long),
        num_beams=size,
        num_return_sequences=size,
        length_penalty=length_penalty,
        early_stopping=True if stop == "full" else "never",
        max_length=longest,
        prefix_allowed_tokens_fn=allowed,
        eos_token_id=END,
        pad_token_id=END,
        do_sample=False,
        use_cache=False,
        return_dict_in_generate=True,
        output_scores=True,
    )
    rows = [
        {"ids": text[2 : 3 + text[2:].index(END)], "score": round(score, 5)}
        for text, score in zip(out.sequences.tolist(), out.sequences_scores.tolist(), strict=True)
    ]
    return [rows[first : first + size] for first in range(0, len(rows), size)]


def main() -> None:
    random = np.random.default_rng(4)
    by_last = random.integers(-2000, 2001, (VOCAB, VOCAB, VOCAB))
    by_last[:, :, END] += 1500  # texts of all lengths
    by_length = random.integers(-1000, 1001, (PERIOD, VOCAB))
    model = Tables(by_last, by_length)
    golden = {
        "transformers": transformers.__version__,
        "end": END,
        "new": NEW,
        "prompts": PROMPTS,
        "by_last": by_last.tolist(),
        "by_length": by_length.tolist(),
        "cases": [case | {"found": found(model, **case)} for case in CASES],
    }
    Path(__file__).with_name("beam.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
