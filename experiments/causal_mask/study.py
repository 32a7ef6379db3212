"""Does a language model need its causal mask?

Without it every position sees the token that it has to predict: the loss in training falls far below what a masked
model reaches, and is worth nothing, since while generating there is no future to look at.

  txjax ablate experiments/causal_mask        (about 3 minutes on 2 cores)
"""

from txjax.config import Config, Data, Optim, Train
from txjax.lab import Prediction, Study, difference, final
from txjax.lab.execution import Trained
from txjax.models import presets

run_causally_loss = final("probe/causal_loss")


def get_study() -> Study:
    return Study(
        question="What does a model without a causal mask learn, and what is it worth where there is no future?",
        base=Config(
            model=presets.gpt2(width=64, num_layers=2, num_heads=4, context=64, position="rope"),
            data=Data(source="python", tokenizer="bytes", validation=0.02, test=0.02),
            optim=Optim(learning_rate=3e-3),
            train=Train(steps=150, batch_size=16, evaluate_every=None),
        ),
        tiers={"smoke": {"train.steps": 60}},
        factors={"model.causal": (True, False)},
        tuned={"optim.learning_rate": (1e-3, 3e-3, 1e-2)},
        metric=final("test/loss"),
        probe=run_causally,
        predictions=[
            Prediction("cheats", difference(True, False), claim="C68"),
            Prediction("useless without a future", difference(False, True), metric=run_causally_loss, claim="C68"),
        ],
    )


def run_causally(trained: Trained) -> dict[str, float]:
    """The test loss of the weights where each position sees the past alone, as in generation."""
    return {"causal_loss": trained.evaluate({"model.causal": True}).loss}
