"""Does a model without 1/sqrt(d_k) end where one with it does, given five times the steps?

txjax ablate experiments/sqrt_dk/five_times.py        (about 4 minutes on 2 cores)
"""

from study import HEAD_DIM, base

from txjax.lab import Prediction, Study, difference, final
from txjax.schema import with_values


def get_study() -> Study:
    return Study(
        question="Is the factor 1/sqrt(d_k) a matter of speed, or of what can be learned?",
        base=with_values(base(steps=1000), {HEAD_DIM: 256}),
        factors={"model.attention.scale": ("rsqrt", "none")},
        tuned={"optim.learning_rate": (3e-4, 1e-3, 3e-3)},
        metric=final("test/accuracy"),
        predictions=[Prediction("the same in the end", difference("rsqrt", "none"), "same", margin=0.01, claim="C02b")],
    )
