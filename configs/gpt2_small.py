"""GPT-2 small, 124 M parameters, with the learning rate and batch of GPT-3's model of that size (Brown et al. 2020).

txjax inspect --config=configs/gpt2_small.py
"""

from txjax import presets
from txjax.config import AdamW, Config, Cosine, Data, Mesh, Optim, Train


def get_config():
    return Config(
        model=presets.named("gpt2", dtype="bfloat16"),
        data=Data(source="python", tokenizer="gpt2"),
        optim=Optim(
            learning_rate=6e-4,
            optimizer=AdamW(betas=(0.9, 0.95)),
            schedule=Cosine(warmup=700, final=0.1),
            weight_decay=0.1,
        ),
        train=Train(steps=600_000, batch_size=512, accumulation=8, loss_chunk=8192, checkpoint_every=1000),
        mesh=Mesh(fsdp=1),
    )
