"""A small BERT, pre-trained on the documentation and the library of the Python that runs it: no download.

txjax train --config=configs/bert_mlm.py --workdir=runs/bert_mlm
txjax train --config=configs/bert_mlm.py:texts/     the same on a text of your own

15 % of the tokens are to be told from the rest of 64, without next sentences. configs/sst2_bert.py goes on from it.
"""

from txjax import presets
from txjax.config import BPE, Config, Cosine, Data, Log, Masked, MaskedTokens, Optim, Text, Train


def get_config(text="python"):
    return Config(
        model=presets.bert(128, 2, 4, context=64, head=Masked()),
        data=Data(
            source=Text(text), tokenizer=BPE(vocab_size=2048), objective=MaskedTokens(), context=64, held_out=512
        ),
        optim=Optim(learning_rate=2e-3, schedule=Cosine(warmup=100, final=0.1), weight_decay=0.01),
        train=Train(steps=1500, batch_size=32, evaluate_every=500, checkpoint_every=500),
        log=Log(every=50),
    )
