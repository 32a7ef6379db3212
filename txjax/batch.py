"""The batch: what a model reads and a loss scores."""

from __future__ import annotations

from typing import Any

import flax.struct

Leaf = Any  # a NumPy or JAX array, a ShapeDtypeStruct or a sharding: whatever a pytree of this shape may hold


@flax.struct.dataclass
class Batch:
    """One batch, a frozen pytree; a field that the task does not use is None. All shapes are [B, T] unless said.

    tokens: int32, what the model reads; of a model that reads vectors (patches of images) float32 [B, T, P].
    targets: int32, what each position has to predict; with a head that classifies rows [B, 1], as weights then are.
    weights: float32, how much each target counts; 0 where it does not (padding, seams, overlaps).
    positions: int32, from 0 in each document.
    segments: int32, the documents packed into a row numbered from 1; 0 is padding. Attention stays inside one.
    types: int32, the token's type, where the embedding has some (sentence A or B).
    prefix: int32 [B], how many tokens at the start of a row see one another: a prefix language model.
    source: int32 [B, S], what an encoder reads.
    source_segments: int32 [B, S], 1 on its tokens and 0 on padding.
    labels: int32 [B], a class of each row, beside targets.
    """

    tokens: Leaf
    targets: Leaf = None
    weights: Leaf = None
    positions: Leaf = None
    segments: Leaf = None
    types: Leaf = None
    prefix: Leaf = None
    source: Leaf = None
    source_segments: Leaf = None
    labels: Leaf = None
