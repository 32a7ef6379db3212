"""nanoGPT's GPU recipe on tinyshakespeare.

txjax train --config=configs/shakespeare_char.py
"""

from txjax import presets
from txjax.config import AdamW, Config, Cosine, Data, Group, Optim, Train


def get_config():
    return Config(
        model=presets.gpt2(
            width=384, num_layers=6, num_heads=6, context=256, bias=False, dropout=0.2, dtype="bfloat16"
        ),
        data=Data(source="tinyshakespeare", tokenizer="char", chunking="crop"),
        optim=Optim(
            learning_rate=1e-3,
            optimizer=AdamW(betas=(0.9, 0.99)),
            schedule=Cosine(warmup=100, final=0.1),
            weight_decay=0.1,
            groups=(Group(match=r"_norm/", weight_decay=0.0),),
        ),
        train=Train(steps=5000, batch_size=64, evaluate_every=250, checkpoint_every=250),
    )
