"""Softmax attention: one function, and several ways to compute it, one file each."""

from txjax.ops.attention.alignment import alignment
from txjax.ops.attention.api import IMPLEMENTATIONS, attention
from txjax.ops.attention.plain import masked_softmax

__all__ = ["IMPLEMENTATIONS", "alignment", "attention", "masked_softmax"]
