"""nanoGPT's CPU recipe on tinyshakespeare, in two minutes on 2 cores.

txjax train --config=configs/shakespeare_char_cpu.py
"""

from txjax import presets
from txjax.config import AdamW, Config, Cosine, Data, Group, Log, Optim, Train


def get_config():
    return Config(
        model=presets.gpt2(width=128, num_layers=4, num_heads=4, context=64, bias=False),
        data=Data(source="tinyshakespeare", tokenizer="char", chunking="crop"),
        optim=Optim(
            learning_rate=1e-3,
            optimizer=AdamW(betas=(0.9, 0.99)),
            schedule=Cosine(warmup=100, final=0.1),
            weight_decay=0.1,
            groups=(Group(match=r"_norm/", weight_decay=0.0),),  # as there: every matrix is decayed, embeddings too
        ),
        train=Train(steps=2000, batch_size=12, evaluate_every=None, checkpoint_every=None),
        log=Log(every=50),
    )
