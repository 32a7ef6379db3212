"""What txjax.ops computes, as plain NumPy in float64, written from the formulas: what the tests hold the ops to.

float32 keeps 6e-8 of a number; a few roundings on numbers of about 1 leave 1e-6, a network of two layers 1e-5.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import numpy as np

# jax.jit without the optimisations that cost most of a small program's time to compile
quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def softmax(scores: Any) -> np.ndarray:
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q: Any, k: Any, v: Any, *, scale: float, visible: Any = True, bias: Any = 0.0, softcap: float | None = None):
    """softmax(cap(scale q k^T) + bias) v, one head of one row after the other, each query over the keys it sees.

    q (B, N, T, H); k, v (B, K, S, H); query head n reads key head n // (N / K); a query without keys gives zeros.
    Returns the outputs (B, N, T, H) and the weights (B, N, T, S).
    """
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    B, N, T, _ = q.shape
    K, S = k.shape[1:3]
    visible, bias = np.broadcast_to(visible, (B, N, T, S)), np.broadcast_to(bias, (B, N, T, S))
    weights = np.zeros((B, N, T, S))
    out = np.zeros((B, N, T, v.shape[-1]))
    for b, n, t in np.ndindex(B, N, T):
        head = n // (N // K)
        scores = scale * k[b, head] @ q[b, n, t]
        if softcap is not None:
            scores = softcap * np.tanh(scores / softcap)
        sees = visible[b, n, t]
        if sees.any():
            weights[b, n, t, sees] = softmax((scores + bias[b, n, t])[sees])
            out[b, n, t] = weights[b, n, t] @ v[b, head]
    return out, weights


def layer_norm(x: np.ndarray, gain: Any, bias: Any, eps: float = 1e-5) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * gain + bias


def log_softmax(logits: Any) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
