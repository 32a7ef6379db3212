"""Is Post-LN hard to train without warm-up, and does warm-up help it more than it helps Pre-LN?

The initial weights matter: N(0, 1/fan_in), unscaled on residual outputs, as when Post-LN was the rule. With GPT-2's
small initial weights the difference shrinks.

  txjax ablate experiments/norm_placement        (about 8 minutes on 2 cores)
"""

from txjax.config import Config, Data, Optim, Train
from txjax.lab import Prediction, Study, at, difference, final, interaction
from txjax.models import presets

WARMUP = "optim.schedule.constant.warmup"


def get_study() -> Study:
    post_is_worse = difference("post", "pre")
    return Study(
        question="Does Post-LN train worse than Pre-LN, and is warm-up what it lacks?",
        base=Config(
            model=presets.gpt2(width=32, num_layers=6, num_heads=2, context=32, init="fan_in"),
            data=Data(source="python", tokenizer="bytes"),
            optim=Optim(weight_decay=0.0),
            train=Train(steps=120, batch_size=8, evaluate_every=None),
        ),
        factors={
            "model.norm_placement": ("pre", "post", "sandwich"),
            "model.num_layers": (6, 12),
            WARMUP: (0, 60),
        },
        tuned={"optim.learning_rate": (1e-3, 3e-3, 1e-2)},
        metric=final("test/loss"),
        predictions=[
            Prediction("post worse without warm-up", at(post_is_worse, 0), claim="C47"),
            Prediction("warm-up helps post more", interaction(post_is_worse, 0, 60), claim="C47"),
            Prediction("post worse the deeper", interaction(at(post_is_worse, 0), 12, 6), claim="C47"),
            Prediction(
                "sandwich as good as pre", at(difference("sandwich", "pre"), 0), "same", margin=0.05, claim="C48"
            ),
        ],
    )
