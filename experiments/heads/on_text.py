"""Do several heads learn text better than one, at the same cost?

txjax ablate experiments/heads/on_text.py        (about 5 minutes on 2 cores)
"""

from study import HEADS

from txjax.config import Config, Data, Train
from txjax.lab import Prediction, Study, difference, final
from txjax.models import presets


def get_study() -> Study:
    return Study(
        question="Are several narrow heads better than one wide one on text, at the same number of parameters?",
        base=Config(
            model=presets.gpt2(width=64, num_layers=2, num_heads=1, context=64),
            data=Data(source="python", tokenizer="bytes"),
            train=Train(steps=250, batch_size=16, evaluate_every=None),
        ),
        factors={HEADS: (1, 2, 4, 8)},
        tuned={"optim.learning_rate": (3e-3, 1e-2, 3e-2)},
        metric=final("test/loss"),
        predictions=[
            Prediction("one head worse than four", difference(1, 4), claim="C30"),
            Prediction("one head worse than eight", difference(1, 8), claim="C30"),
        ],
    )
