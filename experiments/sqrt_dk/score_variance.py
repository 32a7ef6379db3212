"""Is the variance of unscaled attention scores d_k, and is a softmax of them saturated?

Of one layer at the start, on texts of random tokens, N(0, 1/fan_in). Nothing is trained.

  txjax ablate experiments/sqrt_dk/score_variance.py        (a minute on 2 cores)
"""

import jax
import jax.numpy as jnp
import numpy as np
from study import HEAD_DIM

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Config, FanIn, Model, NoPosition
from txjax.lab import Prediction, Study, final
from txjax.models import build

WIDTHS, VOCAB, LENGTH = (16, 64, 256, 1024), 256, 64


def get_study() -> Study:
    attention = Attention(num_heads=1, scale="none", implementation="plain")
    sizes = {"width": 256, "num_layers": 1, "vocab_size": VOCAB, "context": LENGTH}
    model = Model(**sizes, causal=False, attention=attention, position=NoPosition(), init=FanIn())
    return Study(
        question="How do unscaled scores, and a softmax of them, depend on d_k?",
        base=Config(model=model),
        factors={"model.attention.scale": ("none", "rsqrt"), HEAD_DIM: WIDTHS},
        metric=final("score_variance", transform="log"),
        measure=measure,
        predictions=[
            Prediction("the variance grows as d_k", exponent_less_one, "same", margin=0.1, claim="C02"),
            Prediction("unscaled, the softmax saturates", fall_of_slope, metric=final("slope"), claim="C02"),
            Prediction("scaled, it does not", drift_of_slope, "same", margin=0.05, metric=final("slope"), claim="C02"),
        ],
    )


def measure(config, seed):
    """The variance of q k, with d_k beside it, and the median slope sum p (1 - p) of the softmax over the keys."""
    built = build(config.model)
    tokens = jax.random.permutation(jax.random.key(1000 + seed), VOCAB)[: 4 * LENGTH].reshape(4, LENGTH)
    names = ("queries", "keys", "attention_weights")
    seen = built.apply(built.init(jax.random.key(seed)), Batch(tokens=tokens), capture=names).captured
    queries, keys, weights = (jnp.stack(probe.captured(seen, name)) for name in names)
    variance = float(probe.score_variance(queries, keys))
    slope = float(probe.saturation(weights).slope)
    return {"score_variance": variance, "theory/score_variance": float(config.model.head_dim), "slope": slope}


def exponent_less_one(seed):
    """b - 1 of a law variance = a d_k^b, fitted to the logarithms."""
    cells = seed.at("model.attention.scale", "none")
    return float(np.polyfit(np.log(WIDTHS), [cells.at(HEAD_DIM, n).mean() for n in WIDTHS], 1)[0]) - 1


def fall_of_slope(seed):
    """How much of the slope is gone from the narrowest head to the widest."""
    cells = seed.at("model.attention.scale", "none")
    return cells.at(HEAD_DIM, WIDTHS[0]).mean() - cells.at(HEAD_DIM, WIDTHS[-1]).mean()


def drift_of_slope(seed):
    cells = seed.at("model.attention.scale", "rsqrt")
    return cells.at(HEAD_DIM, WIDTHS[0]).mean() - cells.at(HEAD_DIM, WIDTHS[-1]).mean()
