"""What do recurrent nets and Transformers learn from text at equal parameters, in the same number of tokens?

txjax ablate experiments/rnn_vs_transformer/on_text.py        (about 7 minutes on 2 cores)
"""

from study import ARMS

from txjax.config import Config, Data, Train
from txjax.lab import Matched, Prediction, Study, difference, final
from txjax.models import presets


def get_study() -> Study:
    arms = {name: ARMS[name] for name in ("transformer", "rnn", "gru", "lstm", "min_gru")}
    return Study(
        question="What do recurrent nets and Transformers learn from text, a token?",
        base=Config(
            model=presets.gpt2(width=96, num_layers=2, num_heads=4, context=64, position="rope"),
            data=Data(source="python", tokenizer="bytes"),
            train=Train(steps=200, batch_size=16, evaluate_every=None),
        ),
        factors={"arm": arms},
        declared=("model",),
        matched=Matched("parameters", by="model.width", tolerance=0.02),
        tuned={"optim.learning_rate": (3e-3, 1e-2, 3e-2)},
        metric=final("test/loss"),
        predictions=[
            Prediction("an LSTM learns less", difference("lstm", "transformer"), claim="C46c"),
            Prediction("an RNN learns less than an LSTM", difference("rnn", "lstm"), claim="C45"),
        ],
    )
