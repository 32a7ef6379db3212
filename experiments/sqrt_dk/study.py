"""Does attention learn more slowly without 1/sqrt(d_k), and the more so the wider the head?

Key-value retrieval by one layer with one head: what is asked for has to be found by its key, so all depends on scores.
Initial weights N(0, 1/fan_in) and normalised inputs give query and key unit variance, as the argument for the scale
supposes; with small initial weights (0.02) the scores are tiny, and there is nothing to scale.

  txjax ablate experiments/sqrt_dk                       (about 6 minutes on 2 cores)
  txjax ablate experiments/sqrt_dk/five_times.py         the same, five times as long: do they end alike?
  txjax ablate experiments/sqrt_dk/score_variance.py     no training: the variance of the scores against d_k
"""

from txjax.config import Config, Data, Optim, Train
from txjax.data.sources.retrieval import Retrieval
from txjax.lab import Prediction, Study, area_under, difference, slope
from txjax.models import presets

HEAD_DIM = "model.attention.head_dim"


def base(steps: int) -> Config:
    return Config(
        model=presets.gpt2(width=64, num_layers=1, num_heads=1, context=64, position="none", init="fan_in"),
        data=Data(source=Retrieval(pairs=8, keys=16, values=8, pairing="joined")),
        optim=Optim(weight_decay=0.0),
        train=Train(steps=steps, batch_size=64, evaluate_every=None),
    )


def get_study() -> Study:
    slower = difference("none", "rsqrt")
    return Study(
        question="What does the factor 1/sqrt(d_k) on attention scores do to learning?",
        base=base(steps=200),
        factors={"model.attention.scale": ("rsqrt", "none", "folded"), HEAD_DIM: (64, 256, 512)},
        tuned={"optim.learning_rate": (1e-3, 3e-3, 1e-2)},
        metric=area_under("train/loss", transform="log"),
        predictions=[
            Prediction("slower without", slower, claim="C02b"),
            Prediction("slower the wider", slope(slower, over=HEAD_DIM), claim="C02b"),
            Prediction("folded into the init, as with", difference("folded", "rsqrt"), "same", claim="C02b"),
        ],
    )
