"""Do Transformers train faster than recurrent nets where both do the same arithmetic?

As study.py, but of equal FLOPs a token at every length instead of equal parameters: what is left of a difference in
speed is how well a machine can do the arithmetic. A Transformer is narrower the longer the text, since its scores cost
more.

  txjax ablate experiments/rnn_vs_transformer/equal_flops.py        (about 4 minutes on 2 cores, which must be quiet)
"""

import dataclasses

from study import ARMS, TOKENS
from study import get_study as equal_parameters

from txjax.lab import Matched, Study
from txjax.schema import with_values


def get_study() -> Study:
    study = equal_parameters()
    arms = {name: levels for name, levels in ARMS.items() if name != "blockwise"}
    lengths = {n: {"model.context": n, "train.batch_size": TOKENS // n} for n in (64, 1024)}
    return dataclasses.replace(
        study,
        question="How fast do Transformers train beside recurrent nets and convolutions, at equal FLOPs a token?",
        base=with_values(study.base, {"model.attention.head_dim": 48}),  # so that any width will do
        tiers={"device": study.tiers["device"] | {"model.attention.head_dim": 64}},
        factors={"arm": arms, "length": lengths},
        matched=Matched("flops", by="model.width", multiple=4, tolerance=0.03),
        predictions=[p for p in study.predictions if p.name != "faster than an LSTM at 4096"],
    )
