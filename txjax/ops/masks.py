"""A small algebra of attention masks and score biases: `Causal() & Window(128) & SameSegment(segments)`.

True means "may attend", everywhere. A mask is a predicate on the indices of queries and keys: it is a pytree, costs
nothing until an attention implementation asks for the block it is working on, and `mask(indices)` of everything is
its dense form. Indices count keys from 0; during decoding the queries start at the number of keys already cached.
Keys have one index for all rows of a batch, (S,), or one a row, (B, S), where a cache keeps them in another order.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.ops.pytree import pytree, static

Keys = Int[Array, " S"] | Int[Array, "#B S"]


class Mask:
    """Base of all masks."""

    def __call__(self, query_BT: Int[Array, "#B T"], key_S: Keys) -> Bool[Array, "#B #N T S"]:
        """Which of the keys each query may see."""
        raise NotImplementedError

    def __and__(self, other: Mask) -> Mask:
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Or(self, other)

    def dense(self, queries: int, keys: int) -> Bool[Array, "#B #N T S"]:
        """The whole mask for the last `queries` of `keys` positions."""
        return self(jnp.arange(keys - queries, keys)[None], jnp.arange(keys))


@pytree
class And(Mask):
    """What both allow."""

    left: Mask
    right: Mask

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return self.left(query_BT, key_S) & self.right(query_BT, key_S)


@pytree
class Or(Mask):
    """What either allows."""

    left: Mask
    right: Mask

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return self.left(query_BT, key_S) | self.right(query_BT, key_S)


@pytree
class Causal(Mask):
    """Keys at or before the query."""

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return (key_S[..., None, :] <= query_BT[..., None])[:, None]


@pytree
class Window(Mask):
    """Keys less than `size` away from the query: behind a causal mask, exactly min(i + 1, size), itself included."""

    size: int = static()

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return (jnp.abs(query_BT[..., None] - key_S[..., None, :]) < self.size)[:, None]


@pytree
class Filled(Mask):
    """Keys that there are: a slot of a cache that holds none has a negative index."""

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return (jnp.atleast_2d(key_S) >= 0)[:, None, None]


@pytree
class Padding(Mask):
    """Keys that are real tokens. real_BS: True for a real token."""

    real_BS: Bool[Array, "B S"]

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return _at(self.real_BS, key_S)[:, None, None]


@pytree
class SameSegment(Mask):
    """Keys of the query's own document in a packed row. segments_BS: numbers of the documents; 0 is padding."""

    segments_BS: Int[Array, "B S"]

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        query_segments_BT, key_segments_BS = _at(self.segments_BS, query_BT), _at(self.segments_BS, key_S)
        return (query_segments_BT[:, :, None] == key_segments_BS[:, None])[:, None]


def _at(values_BS: Array, index_BT: Array) -> Array:
    """The values of each row at indices that all rows share, or at its own."""
    if index_BT.ndim == 1:
        return values_BS[:, index_BT]
    rows = max(values_BS.shape[0], index_BT.shape[0])
    return jnp.take_along_axis(values_BS, jnp.broadcast_to(index_BT, (rows, index_BT.shape[1])), axis=1)


@pytree
class Prefix(Mask):
    """Keys of a prefix that everybody sees: `Causal() | Prefix(lengths)`. lengths_B: its length in each row."""

    lengths_B: Int[Array, " B"]

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return (key_S < self.lengths_B[:, None])[:, None, None]


@pytree
class Explicit(Mask):
    """A mask given as an array of booleans. first: the query of its first row; None: its rows are the last queries."""

    allowed: Bool[Array, "#B #N T S"]
    first: Int[Array, ""] | None = None

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return _block(self.allowed, self.first, query_BT, key_S)


def _block(values: Array, first: Array | None, query_BT: Array, key_S: Array) -> Array:
    """The rows and columns asked for. Rows of a batch may be at different places, but are equally far from `first`."""
    if key_S.ndim > 1:
        raise ValueError("a mask or bias given as an array cannot serve keys that lie in another order in each row")
    first = jnp.asarray(values.shape[-1] - values.shape[-2]) if first is None else first
    return values[..., query_BT[0] - first, :][..., key_S]


def as_mask(mask: Mask | Array | None, first: Array | None = None) -> Mask | None:
    """A mask from what a caller has: a Mask, or an array of booleans (True = may attend), (#B, #N, T, S).

    first: the query of an array's first row, in row 0 of the batch; None: its rows are the last queries.

    Numbers are refused (TypeError): whether 0 or 1 or -inf hides is a matter of convention, and a wrong guess
    trains on without a word.
    """
    if mask is None or isinstance(mask, Mask):
        return mask
    if jnp.asarray(mask).dtype != jnp.bool_:
        raise TypeError(
            f"a mask holds booleans, True = may attend, got {jnp.asarray(mask).dtype}: "
            "compare it first (mask != 0), or pass an additive one as bias"
        )
    if mask.ndim != 4:
        raise TypeError(f"a mask array has the axes (batch, heads, queries, keys), each of them or 1, got {mask.shape}")
    return Explicit(mask, first)


class Bias:
    """What is added to the scores, as a function of indices. Also an array (#B, #N, T, S): see `as_bias`."""

    def __call__(self, query_BT: Int[Array, "#B T"], key_S: Keys) -> Float[Array, "#B #N T S"]:
        """The bias of each key for each query, in float32."""
        raise NotImplementedError


@pytree
class ExplicitBias(Bias):
    """A bias given as an array. first: see Explicit."""

    values: Float[Array, "#B #N T S"]
    first: Int[Array, ""] | None = None

    def __call__(self, query_BT: Array, key_S: Array) -> Array:
        return _block(self.values, self.first, query_BT, key_S).astype(jnp.float32)


def as_bias(bias: Bias | Array | None, first: Array | None = None) -> Bias | None:
    """A bias from a Bias or an array of floats, (N, T, S) or (#B, #N, T, S). first: see as_mask."""
    if bias is None or isinstance(bias, Bias):
        return bias
    if not jnp.issubdtype(jnp.asarray(bias).dtype, jnp.floating):
        raise TypeError(f"a bias holds floats that are added to the scores, got {jnp.asarray(bias).dtype}")
    return ExplicitBias(bias if bias.ndim == 4 else bias[None], first)
