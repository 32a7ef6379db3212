"""Looking into a model: pure functions over what one pass captured, and over gradients.

What is captured is asked for by name (`Model.apply(capture=...)`), so that it costs nothing where nobody looks.
"""

from txjax.probe.attention import Saturation, attention_maps, entropy, saturation, score_variance, scores
from txjax.probe.gradients import gradient_by_distance, gradient_norms, weight_gradients
from txjax.probe.layers import by_layer, captured

__all__ = [
    "Saturation", "attention_maps", "by_layer", "captured", "entropy", "gradient_by_distance", "gradient_norms",
    "saturation", "score_variance", "scores", "weight_gradients",
]  # fmt: skip
