"""The small BERT of configs/bert_mlm.py, fine-tuned to tell good reviews from bad ones (SST-2, Socher et al. 2013).

txjax train --config=configs/bert_mlm.py --workdir=runs/bert_mlm
txjax train --config=configs/sst2_bert.py:runs/bert_mlm --workdir=runs/sst2_bert
txjax train --config=configs/sst2_bert.py:runs/bert_mlm --config.train.init_from=none     the same from scratch
txjax eval --workdir=runs/sst2_bert --step=best --split=test
"""

from txjax import presets
from txjax.config import Classes, Config, Data, Labelled, Linear, Log, Optim, Saved, Train


def get_config(pretrained):
    return Config(
        model=presets.bert(128, 2, 4, context=64, head=Classes(2, pool="mean"), dropout=0.1),
        data=Data(source=Labelled("sst2", buckets=6), tokenizer=Saved(pretrained), context=64),
        optim=Optim(learning_rate=5e-4, schedule=Linear(warmup=40), weight_decay=0.01),
        train=Train(
            steps=432,
            batch_size=32,
            init_from=pretrained,
            evaluate_every=108,
            checkpoint_every=108,
            best_by="accuracy",
        ),
        log=Log(every=36),
    )
