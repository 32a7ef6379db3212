"""Multi30k by a recurrent net: configs/translate_multi30k.py's data and width, with and without attention.

txjax train --config=configs/translate_rnn.py            attention over its states with an additive score
txjax train --config=configs/translate_rnn.py:dot        Luong et al. 2015; also general
txjax train --config=configs/translate_rnn.py:search     attention before each step: Bahdanau et al. 2015
txjax train --config=configs/translate_rnn.py:none       one state holds the sentence: Sutskever et al. 2014
"""

from txjax.config import GRU, Alignment, Config, Cosine, Data, Log, NoCross, Optim, Pairs, Train, Words
from txjax.models import presets


def get_config(attention: str = "additive"):
    return Config(
        model=model(attention, width=256, context=64, dropout=0.3),
        data=Data(source=Pairs(name="multi30k/bpe10k", source="en", target="de"), tokenizer=Words(), context=256),
        optim=Optim(learning_rate=1e-3, schedule=Cosine(warmup=200, final=0.05), weight_decay=0.01),
        train=Train(
            steps=1000, batch_size=32, evaluate_batch_size=128, label_smoothing=0.1, checkpoint_every=200, keep_last=5
        ),
        log=Log(every=20),
    )


def model(attention: str, **sizes):
    if attention == "search":
        return presets.rnnsearch(**sizes)
    cross = NoCross() if attention == "none" else Alignment(score=attention)
    return presets.seq2seq(GRU(), cross=cross, **sizes)
