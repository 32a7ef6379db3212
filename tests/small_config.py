"""A config file as a user writes it, of a model that trains in a second: get_config(PATH OF A TEXT)."""

from txjax.config import Config, Data, Log, Optim, Train
from txjax.models import presets


def get_config(text):
    return Config(
        model=presets.gpt2(width=16, num_layers=2, num_heads=2, context=16),
        data=Data(source=text, tokenizer="char"),
        optim=Optim(learning_rate=1e-2),
        train=Train(steps=20, batch_size=8, evaluate_every=None, checkpoint_every=None),
        log=Log(every=1, sample_tokens=0, peak_flops=1e11),
    )
