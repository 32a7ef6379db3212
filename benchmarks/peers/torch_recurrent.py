"""The same sequence model in PyTorch: nn.RNN, nn.GRU or nn.LSTM, or a GPT with scaled_dot_product_attention; fused
AdamW.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from benchmarks.peers import recurrent_problem as p
from benchmarks.peers import torch_gpt

CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Recurrent(nn.Module):
    def __init__(self, task: p.Problem) -> None:
        super().__init__()
        self.embedding = nn.Embedding(p.VOCAB, task.width)
        self.layers = CELLS[task.cell](task.width, task.width, num_layers=p.LAYERS, batch_first=True)
        self.head = nn.Linear(task.width, p.VOCAB, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.layers(self.embedding(tokens))[0])
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def load(model: Recurrent, cell: str, w: dict[str, np.ndarray]) -> None:
    """Fill the model with weights from their txjax names; torch's matrices are (out, in), its gates in the same order.
    Its second bias, which says the same as the first but in a GRU, stays at zero.
    """
    state = {name: torch.zeros_like(leaf) for name, leaf in model.state_dict().items()}
    state |= {"embedding.weight": torch.tensor(w["embedding/w"]), "head.weight": torch.tensor(w["head/w"].T)}
    for i in range(p.LAYERS):
        for name, of in ((f"weight_ih_l{i}", "input"), (f"weight_hh_l{i}", "recurrent")):
            matrix = w[f"layers/block_0/{cell}/{of}/w"][i]
            state[f"layers.{name}"] = torch.tensor(matrix.reshape(len(matrix), -1).T.copy())
    model.load_state_dict(state)


def inner_only(gradient: torch.Tensor) -> torch.Tensor:
    """Of the biases beside a GRU's state, that of the new state alone: the gates have theirs beside the input."""
    return torch.cat([torch.zeros_like(gradient[: 2 * len(gradient) // 3]), gradient[2 * len(gradient) // 3 :]])


def recurrent(task: p.Problem) -> tuple[nn.Module, list[nn.Parameter]]:
    """The model with its first weights, and those of its parameters that are trained."""
    model = Recurrent(task)
    load(model, task.cell, p.weights(task))
    for name, parameter in model.named_parameters():
        if "bias_hh" in name:
            parameter.register_hook(inner_only) if task.cell == "gru" else parameter.requires_grad_(False)
    return model, [x for x in model.parameters() if x.requires_grad]


def transformer(task: p.Problem) -> tuple[nn.Module, list[nn.Parameter]]:
    model = torch_gpt.GPT(p.VOCAB, task.width, p.LAYERS, p.HEADS, bias=True, context=None)
    torch_gpt.load(model, p.weights(task))
    return model, list(model.parameters())


def main() -> None:
    task = p.problem()
    model, parameters = transformer(task) if task.cell == "transformer" else recurrent(task)
    adamw = torch.optim.AdamW(parameters, p.RATE, p.BETAS, p.EPS, weight_decay=0.0, fused=True)
    torch_gpt.run(model, adamw, p.batch(task), task.steps)


if __name__ == "__main__":
    main()
