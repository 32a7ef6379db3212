"""How large is the gradient that reaches the last feed-forward at the start, as stacks grow deeper?

Xiong et al. 2020: Pre-LN's falls as 1/sqrt(L), since its stream grows and the final norm divides by it; Post-LN's does
not depend on L. Nothing is trained.

  txjax ablate experiments/norm_placement/gradients.py --workdir=runs/studies/gradients        (a minute on 2 cores)
"""

from functools import cache

import jax
import numpy as np

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Config, Model
from txjax.lab import Prediction, Study, final
from txjax.models import build
from txjax.schema import with_values

VOCAB, DEPTHS = 64, (2, 4, 8, 16, 32, 48)


def get_study() -> Study:
    model = Model(width=64, num_layers=2, vocab_size=VOCAB, context=32, attention=Attention(num_heads=4), init="fan_in")
    return Study(
        question="How does the gradient of the last feed-forward's weights at the start depend on the depth?",
        base=Config(model=with_values(model, {"position": "none", "head": "linear"})),
        factors={"model.norm_placement": ("pre", "post"), "model.num_layers": DEPTHS},
        metric=final("gradient", transform="log"),
        measure=measure,
        predictions=[
            Prediction("pre falls as 1/sqrt(L)", pre_exponent_less_theory, "same", margin=0.1, claim="C47"),
            Prediction("post does not fall", post_exponent, "same", margin=0.1, claim="C47"),
        ],
    )


def measure(config, seed):
    """|d loss / d W_out| of the last layer, and what the theory makes of that of two layers."""
    placement, depth = config.model.norm_placement, config.model.num_layers
    shallow = with_values(config.model, {"num_layers": DEPTHS[0]})
    theory = (DEPTHS[0] / depth) ** 0.5 if placement == "pre" else 1.0
    return {"gradient": last_gradient(config.model, seed), "theory/gradient": theory * last_gradient(shallow, seed)}


@cache
def last_gradient(model, seed):
    return float(program(model)(seed))


@cache
def program(model):
    """Of all seeds of a placement and depth, compiled once."""
    built = build(model)

    def last(seed):
        tokens, targets = jax.random.randint(jax.random.key(1000 + seed), (2, 8, model.context), 0, VOCAB)
        batch = Batch(tokens=tokens, targets=targets)
        gradients = probe.weight_gradients(built, built.init(jax.random.key(seed)), batch)
        return probe.gradient_norms(gradients, lambda layer: layer["dense"]["out"]["w"])[-1]

    return jax.jit(last)


def exponent(seed, placement):
    """b of a law g = a L^b, fitted to the logarithms."""
    cells = seed.at("model.norm_placement", placement)
    return float(np.polyfit(np.log(DEPTHS), [cells.at("model.num_layers", n).mean() for n in DEPTHS], 1)[0])


def pre_exponent_less_theory(seed):
    return exponent(seed, "pre") + 0.5


def post_exponent(seed):
    return exponent(seed, "post")
