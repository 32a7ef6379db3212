r"""Multi30k, English to German: the text-only baseline of Wu et al. 2021 ("Good for Misconceived Reasons"), BLEU 41.02.

  txjax train --config=configs/translate_multi30k.py --workdir=runs/multi30k
  txjax translate --workdir=runs/multi30k --from=$TXJAX_DATA/multi30k/bpe10k/test.2016.en.gz \
      --reference=$TXJAX_DATA/multi30k/bpe10k/test.2016.de.gz --beam=5 --stop=full --average=10

Measured on 2026-11-30 on two CPU cores in 3 hours: BLEU 40.93 on test.2016 with the command above, at the end; the mean
of the ten checkpoints up to step 7,000, where val/loss is least, has 41.25. configs/README.md has the curve.

4 + 4 layers of width 128, post-norm, one table for both languages and the head; 8,192 positions of source and as many
of target a step. The corpus is for research and education only, and is not fetched: see `txjax data list`.
"""

from txjax.config import (
    AdamW,
    Attention,
    Config,
    Data,
    Dense,
    Encoder,
    FanIn,
    InverseSqrt,
    Log,
    Model,
    Optim,
    Pairs,
    Sinusoidal,
    Tokens,
    Train,
    Words,
)


def get_config():
    return Config(
        model=Model(
            width=128,
            num_layers=4,
            encoder=Encoder(num_layers=4),
            attention=Attention(num_heads=4),
            feedforward=Dense(hidden=256, activation="relu"),
            embedding=Tokens(scale="sqrt_width"),
            position=Sinusoidal(),
            norm_placement="post",
            context=64,
            dropout=0.3,
            dropout_sites=("embedding", "residual"),
            init=FanIn(),
        ),
        data=Data(source=Pairs(name="multi30k/bpe10k", source="en", target="de"), tokenizer=Words(), context=256),
        optim=Optim(
            learning_rate=5e-3,
            optimizer=AdamW(betas=(0.9, 0.98)),
            schedule=InverseSqrt(warmup=2000),
            weight_decay=0.0,
            clip=None,
        ),
        train=Train(
            steps=8000,
            batch_size=32,  # times 256: batches of short pairs are multiples of 32 rows
            label_smoothing=0.1,
            evaluate_every=500,
            evaluate_batch_size=128,
            checkpoint_every=100,
            keep_last=10,
        ),
        log=Log(every=20),
    )
