"""The same GPT in PyTorch: scaled_dot_product_attention, AdamW. Forms: eager, eager_fused, compiled."""

from __future__ import annotations

import os

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from benchmarks.peers import problem as p


class Block(nn.Module):
    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.mixer_norm = nn.LayerNorm(width, p.NORM_EPS, bias=bias)
        self.query_key_value = nn.Linear(width, 3 * width, bias=bias)
        self.attention_out = nn.Linear(width, width, bias=bias)
        self.feedforward_norm = nn.LayerNorm(width, p.NORM_EPS, bias=bias)
        self.dense_in = nn.Linear(width, 4 * width, bias=bias)
        self.dense_out = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, D = x.shape
        heads = self.query_key_value(self.mixer_norm(x)).view(B, T, 3, self.heads, D // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D)
        x = x + self.attention_out(mixed)
        return x + self.dense_out(F.gelu(self.dense_in(self.feedforward_norm(x)), approximate="tanh"))


class GPT(nn.Module):
    """context: rows of a learned position table; none: no positions."""

    def __init__(self, vocab: int, width: int, layers: int, heads: int, bias: bool, context: int | None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.position = None if context is None else nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width, p.NORM_EPS, bias=bias)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        if self.position is not None:
            x = x + self.position.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.final_norm(x), self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def load(model: GPT, w: dict[str, np.ndarray]) -> None:
    """Fill the model with weights from their txjax names; torch's matrices are (out, in)."""
    w = {name.removeprefix("layers/block_0/"): leaf for name, leaf in w.items()}
    state = {"embedding.weight": w["embedding/w"]}
    state |= {"position.weight": w["position/table"]} if model.position is not None else {}
    state |= {f"final_norm.{to}": w[f"final_norm/{of}"] for to, of in _norm(w)}
    for i in range(len(model.blocks)):
        for name in ("mixer_norm", "feedforward_norm"):
            state |= {f"blocks.{i}.{name}.{to}": w[f"{name}/{of}"][i] for to, of in _norm(w)}
        for name, of in (("attention_out", "attention/out"), ("dense_in", "dense/in"), ("dense_out", "dense/out")):
            state |= _linear(w, f"blocks.{i}.{name}", (of,), i)
        heads = ("attention/query", "attention/key", "attention/value")
        state |= _linear(w, f"blocks.{i}.query_key_value", heads, i)
    model.load_state_dict({name: torch.tensor(np.ascontiguousarray(leaf)) for name, leaf in state.items()})


def _norm(w: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    return [("weight", "gain")] + ([("bias", "bias")] if "final_norm/bias" in w else [])


def _linear(w: dict[str, np.ndarray], to: str, names: tuple[str, ...], layer: int) -> dict[str, np.ndarray]:
    """One torch matrix from one or several of txjax's, side by side."""
    width = w["embedding/w"].shape[1]
    # what leads back into the stream has its width last, what leads out of it first
    shape = (-1, width) if names[0].endswith("/out") else (width, -1)
    state = {f"{to}.weight": np.concatenate([w[f"{name}/w"][layer].reshape(shape) for name in names], axis=1).T}
    if f"{names[0]}/b" in w:
        state[f"{to}.bias"] = np.concatenate([w[f"{name}/b"][layer].reshape(-1) for name in names])
    return state


def optimizer(model: GPT, fused: bool) -> torch.optim.Optimizer:
    matrices = [x for name, x in model.named_parameters() if name.startswith("blocks") and x.ndim > 1]
    others = [x for name, x in model.named_parameters() if not (name.startswith("blocks") and x.ndim > 1)]
    groups = [{"params": matrices, "weight_decay": p.DECAY}, {"params": others, "weight_decay": 0.0}]
    how = {"fused": True} if fused else {"foreach": True}
    return torch.optim.AdamW(groups, lr=p.RATE, betas=p.BETAS, eps=p.EPS, **how)


def run(
    model: nn.Module,
    adamw: torch.optim.Optimizer,
    batch: tuple[np.ndarray, np.ndarray],
    steps: int,
    compiled: bool = False,
) -> None:
    """Time the train step of a model that gives its loss, on one batch, and print what came of it."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    tokens, targets = (torch.from_numpy(x).long() for x in batch)
    forward = torch.compile(model) if compiled else model

    def step() -> torch.Tensor:
        adamw.zero_grad(set_to_none=True)
        loss = forward(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), p.CLIP)
        adamw.step()
        return loss.detach()

    x = torch.ones(1024, 1024)
    p.run(step, lambda: x @ x, steps, version=f"torch {torch.__version__}")


def main() -> None:
    task = p.problem()
    model = GPT(task.vocab, p.WIDTH, p.LAYERS, p.HEADS, task.bias, p.CONTEXT)
    load(model, p.weights(task.vocab, task.bias))
    adamw = optimizer(model, fused=task.form != "eager")
    run(model, adamw, p.batch(task.vocab), task.steps, compiled=task.form == "compiled")


if __name__ == "__main__":
    main()
