"""Looking into a model: pure functions over what one pass captured, and over gradients.

What is captured is asked for by name (`Model.apply(capture=...)`), so that it costs nothing where nobody looks.
"""

from txjax.probe.attention import Saturation, attention_maps, entropy, saturation, score_variance, scores
from txjax.probe.gradients import gradient_by_distance, gradient_norms, weight_gradients
from txjax.probe.heads import (
    head_outputs,
    importance,
    induction_score,
    knockout,
    known_heads,
    patched,
    patching,
    previous_token_score,
    repeated_tokens,
    with_heads,
    without,
)
from txjax.probe.layers import by_layer, captured, sown, with_own_layers
from txjax.probe.lens import guesses, logit_lens

__all__ = [
    "Saturation", "attention_maps", "by_layer", "captured", "entropy", "gradient_by_distance", "gradient_norms",
    "guesses", "head_outputs", "importance", "induction_score", "knockout", "known_heads", "logit_lens", "patched",
    "patching", "previous_token_score", "repeated_tokens", "saturation", "score_variance", "scores", "sown",
    "weight_gradients", "with_heads", "with_own_layers", "without",
]  # fmt: skip
