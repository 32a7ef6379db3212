"""Pure functions on arrays: no Flax, no config, usable alone."""

from txjax.ops.attention import attention, masked_softmax
from txjax.ops.dropout import dropout
from txjax.ops.linear import linear
from txjax.ops.losses import cross_entropy, sum_of_losses
from txjax.ops.masks import Causal, Mask, Padding, Prefix, SameSegment, Window
from txjax.ops.norms import layer_norm, rms_norm
from txjax.ops.positions import alibi_slopes, rotate, sinusoidal_code
from txjax.ops.sampling import filtered_logits, sample

__all__ = [
    "Causal", "Mask", "Padding", "Prefix", "SameSegment", "Window", "alibi_slopes", "attention", "cross_entropy",
    "dropout", "filtered_logits", "layer_norm", "linear", "masked_softmax", "rms_norm", "rotate", "sample",
    "sinusoidal_code", "sum_of_losses",
]  # fmt: skip
