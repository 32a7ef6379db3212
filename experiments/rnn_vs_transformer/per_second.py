"""What do an LSTM and a Transformer learn from text at equal parameters, in the same time on this machine?

txjax ablate experiments/rnn_vs_transformer/per_second.py        (about 3 minutes on 2 cores, which must be quiet)
"""

import dataclasses

from on_text import get_study as on_text

from txjax.lab import Matched, Prediction, Study, difference
from txjax.lab.arms import resolve
from txjax.schema import with_values


def get_study() -> Study:
    per_token = on_text()
    arms = {name: per_token.factors["arm"][name] for name in ("transformer", "lstm")}
    width = resolve(
        dataclasses.replace(per_token, factors={"arm": arms}, predictions=[]),
        with_values(per_token.base, {"model.vocab_size": 256}),
    )[1].config.model.width
    arms["lstm"] = arms["lstm"] | {"model.width": width}  # of equal parameters; wall time is matched besides
    return dataclasses.replace(
        per_token,
        question="What do an LSTM and a Transformer learn from text, a second?",
        factors={"arm": arms},
        matched=Matched("seconds", by="train.steps"),
        predictions=[Prediction("an LSTM learns less", difference("lstm", "transformer"), claim="C46c")],
    )
