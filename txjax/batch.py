"""The batch: what a model reads and a loss scores."""

from __future__ import annotations

from typing import Any

import flax.struct

Leaf = Any  # a NumPy or JAX array, a ShapeDtypeStruct or a sharding: whatever a pytree of this shape may hold


@flax.struct.dataclass
class Batch:
    """One batch, a frozen pytree; a field that the task does not use is None. All shapes are [B, T] but source's.

    tokens: int32, what the model reads.
    targets: int32, what each position has to predict.
    weights: float32, how much each target counts; 0 where it does not (padding, seams, overlaps).
    positions: int32, from 0 in each document.
    segments: int32, the documents packed into a row numbered from 1; 0 is padding. Attention stays inside one.
    source: int32 [B, S], what an encoder reads.
    """

    tokens: Leaf
    targets: Leaf = None
    weights: Leaf = None
    positions: Leaf = None
    segments: Leaf = None
    source: Leaf = None
