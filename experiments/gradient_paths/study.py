"""How much of a gradient is left after a distance, through a recurrence and through attention?

d h_T / d x_1 of one layer at the start, over texts of 4 to 64 tokens. A recurrence multiplies by its matrix once a
token: exponential. Attention reaches the token at once, and weighs it as one of T: about 1/T. Nothing is trained.

  txjax ablate experiments/gradient_paths        (half a minute on 2 cores)
"""

import jax
import numpy as np

from txjax import probe
from txjax.batch import Batch
from txjax.config import Attention, Config, Model, NoFeedForward
from txjax.lab import Prediction, Study, final
from txjax.models import build
from txjax.schema import with_values

LENGTHS, VOCAB = (4, 8, 16, 32, 64), 256  # at 128 the RNN's gradient is below what float32 can hold


def get_study() -> Study:
    model = Model(
        width=32, num_layers=1, vocab_size=VOCAB, attention=Attention(num_heads=1), feedforward=NoFeedForward()
    )
    return Study(
        question="How does a gradient fall with distance, in a tanh RNN and in attention?",
        base=Config(model=with_values(model, {"position": "none", "init": "fan_in"})),
        factors={"model.mixer": ("rnn", "attention"), "model.context": LENGTHS},
        metric=final("gradient", transform="log"),
        measure=measure,
        predictions=[
            Prediction("the RNN's is exponential", exponential_fits_the_rnn, claim="C43"),
            Prediction("the RNN's falls", rnn_rate, claim="C43"),
            Prediction("attention's is a power of the distance", power_fits_attention, claim="C44"),
            Prediction("that power is -1", attention_exponent_less_theory, "same", margin=0.5, claim="C44"),
        ],
    )


def measure(config, seed):
    """|d h_T / d x_1|, the median over eight texts in which no token occurs twice."""
    built, length = build(config.model), config.model.context
    keys = jax.random.split(jax.random.key(1000 + seed), 8)
    tokens = jax.vmap(lambda key: jax.random.permutation(key, VOCAB)[:length])(keys)
    reach = probe.gradient_by_distance(built, built.init(jax.random.key(seed)), Batch(tokens=tokens))
    return {"gradient": float(np.median(reach[:, 0]))}


def misfit(seed, mixer, scale):
    """Root mean square distance of log g from a straight line in scale(T)."""
    cells = seed.at("model.mixer", mixer)
    x, y = scale(LENGTHS), [cells.at("model.context", n).mean() for n in LENGTHS]
    return float(np.sqrt(np.mean((np.polyval(np.polyfit(x, y, 1), x) - y) ** 2)))


def exponential_fits_the_rnn(seed):
    """A straight line in T misses log g by less than one in log T does."""
    return misfit(seed, "rnn", np.log) - misfit(seed, "rnn", np.asarray)


def rnn_rate(seed):
    """What a token takes off log g, in nats."""
    cells = seed.at("model.mixer", "rnn")
    return -float(np.polyfit(LENGTHS, [cells.at("model.context", n).mean() for n in LENGTHS], 1)[0])


def power_fits_attention(seed):
    """A straight line in log T misses log g by less than one in T does."""
    return misfit(seed, "attention", np.asarray) - misfit(seed, "attention", np.log)


def attention_exponent_less_theory(seed):
    """b + 1 of a law g = a T^b, fitted to the logarithms."""
    cells = seed.at("model.mixer", "attention")
    return float(np.polyfit(np.log(LENGTHS), [cells.at("model.context", n).mean() for n in LENGTHS], 1)[0]) + 1.0
