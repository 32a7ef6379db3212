"""English to Chinese on the paragraphs of Python's documentation: a Transformer of width 256 over a joint BPE of bytes.

  txjax train --config=configs/translate_en_zh.py --workdir=runs/en_zh
  txjax translate --workdir=runs/en_zh --from=english.txt

The corpus is CC0. Chinese characters are three bytes, and the merges learn them from the training text.
"""

from txjax.config import BPE, Config, Data, InverseSqrt, Log, Optim, Pairs, Train
from txjax.models import presets


def get_config():
    return Config(
        model=presets.transformer(256, 4, 4, hidden=1024, context=128, dropout=0.1, norm_placement="pre"),
        data=Data(
            source=Pairs(name="pydocs_en_zh", source="0", target="1"),
            tokenizer=BPE(vocab_size=8192),
            validation=0.02,
            test=0.02,
        ),
        optim=Optim(learning_rate=1e-3, schedule=InverseSqrt(warmup=1000), weight_decay=0.01),
        train=Train(steps=10_000, batch_size=64, label_smoothing=0.1, evaluate_every=1000, checkpoint_every=500),
        log=Log(every=20),
    )
