"""Do several heads learn what one cannot, at the same cost?

At every position the target is the four symbols before it, all at once: each has to be brought from another place, and
a head attends to one mixture of places. The width is divided among the heads, so that parameters and matrix products
are the same for any number of them.

  txjax ablate experiments/heads                (about 5 minutes on 2 cores)
  txjax ablate experiments/heads/on_text.py     the same question on text
"""

from txjax.config import Config, Data, Optim, Train
from txjax.data.sources.multi_relation import MultiRelation
from txjax.lab import Prediction, Study, difference, final
from txjax.models import presets

HEADS = "model.attention.num_heads"


def get_study() -> Study:
    return Study(
        question="Are several narrow heads better than one wide one, at the same number of parameters?",
        base=Config(
            model=presets.gpt2(width=64, num_layers=1, num_heads=1, context=64, init="fan_in"),
            data=Data(source=MultiRelation()),
            optim=Optim(weight_decay=0.0),
            train=Train(steps=250, batch_size=32, evaluate_every=None),
        ),
        factors={HEADS: (1, 2, 4, 8)},
        tuned={"optim.learning_rate": (3e-3, 1e-2, 3e-2)},
        metric=final("test/loss"),
        predictions=[
            Prediction("one head worse than four", difference(1, 4), claim="C30"),
            Prediction("one head worse than eight", difference(1, 8), claim="C30"),
            Prediction("two heads worse than four", difference(2, 4), claim="C30"),
        ],
    )
