"""Do Transformers train faster than recurrent nets, at least ten times faster, and the more so the longer the text?

Speeds of a whole train step at 4096 tokens a batch and equal parameters, each seed a process of its own that measures
every arm once, in random order; and achieved FLOP/s, their share of what a product of matrices gets on the machine, and
the longest chain of operations that wait for one another in a forward pass. A recurrent net has to take its steps one
after another; attention does not, and pays with scores that grow with the square of the length. Which of the two costs
more depends on the machine.

  txjax ablate experiments/rnn_vs_transformer                  (about 9 minutes on 2 cores, which must be quiet)
  txjax ablate experiments/rnn_vs_transformer --tier=device    on a GPU or TPU: wider, bfloat16; with cuDNN's LSTM
  txjax ablate experiments/rnn_vs_transformer/equal_flops.py   the same at equal FLOPs a token
  txjax ablate experiments/rnn_vs_transformer/on_text.py       what they learn, a token
  txjax ablate experiments/rnn_vs_transformer/per_second.py    what they learn, a second
  python benchmarks/recurrent.py --cells=lstm,transformer --widths=192 --lengths=64,1024,4096      beside PyTorch
"""

import math
from typing import Any

import jax

from txjax.config import Config, Train
from txjax.lab import Matched, Prediction, Study, at, final, log_ratio, slope
from txjax.lab.timing import training_speed
from txjax.models import build, presets
from txjax.models.costs import forward_program, sequential_depth

TOKENS = 4096  # in a batch, whatever the length


def alone(mixer: str) -> dict[str, Any]:
    """Settings of layers that are this mixer alone."""
    return {
        "model.mixer": mixer,
        "model.feedforward": "none",
        "model.position": "none",
        "model.attention.head_dim": 32,  # of no use here; any width will do
    }


ARMS: dict[str, dict[str, Any]] = {
    "transformer": {},
    "blockwise": {"model.attention.implementation": "blockwise"},
    "rnn": alone("rnn"),
    "gru": alone("gru"),
    "lstm": alone("lstm"),
    "min_gru": alone("min_gru"),
    "convolution": alone("convolution"),
}


ON_A_GPU = {"cudnn_lstm": alone("lstm") | {"model.mixer.lstm.implementation": "cudnn"}}


def get_study() -> Study:
    faster = log_ratio("transformer", "lstm")
    return Study(
        question="How fast do Transformers train beside recurrent nets and convolutions, against the length?",
        base=Config(
            model=presets.gpt2(width=192, num_layers=2, num_heads=4, context=64, vocab_size=256, position="rope"),
            train=Train(steps=1),
        ),
        tiers={"device": {"model.width": 1024, "model.attention.num_heads": 16, "model.dtype": "bfloat16"}},
        factors={
            "arm": ARMS | (ON_A_GPU if jax.default_backend() == "gpu" else {}),
            "length": {n: {"model.context": n, "train.batch_size": TOKENS // n} for n in (64, 256, 1024, 4096)},
        },
        declared=("model", "train.batch_size"),
        matched=Matched("parameters", by="model.width"),
        metric=final("tokens_per_second"),
        measure=measure,
        launches=True,
        predictions=[
            Prediction("faster than an LSTM", faster, claim="C42"),
            Prediction("ten times faster", faster, "at_least", least=math.log(10), claim="C42"),
            Prediction("the more so the longer", slope(faster, over="length"), claim="C42"),
            Prediction("faster than an LSTM at 64", at(faster, 64), primary=False),
            Prediction("faster than an LSTM at 4096", at(faster, 4096), primary=False),
            Prediction("faster than a minGRU", log_ratio("transformer", "min_gru"), primary=False),
            Prediction("faster than a convolution", log_ratio("transformer", "convolution"), primary=False),
        ],
    )


def measure(config: Config, seed: int) -> dict[str, float]:
    """Speeds of a train step, and once the depth of a forward pass, which is the same in every launch."""
    figures = training_speed(config, seconds=0.7)
    if seed % 1000 == 0:
        program = forward_program(build(config.model), 1, config.model.context)
        figures["sequential_depth"] = sequential_depth(program)
    return figures
