"""English to Chinese on the paragraphs of Python's documentation: a small Transformer over a joint BPE of bytes.

  txjax train --config=configs/translate_en_zh.py --workdir=runs/en_zh
  txjax translate --workdir=runs/en_zh --from=english.txt
  txjax translate --workdir=runs/en_zh --from=english.txt --average=10 --reference=chinese.txt --tokenize=zh

The corpus is CC0. Chinese characters are three bytes, and the merges learn them from the training text.
"""

from txjax.config import BPE, Config, Cosine, Data, Log, Optim, Pairs, Train
from txjax.models import presets


def get_config():
    return Config(
        model=presets.transformer(128, 4, 4, hidden=512, context=128, dropout=0.1, norm_placement="pre"),
        data=Data(
            source=Pairs(name="pydocs_en_zh", source="0", target="1"),
            tokenizer=BPE(vocab_size=8192),
            context=128,
            validation=0.02,
            test=0.02,
        ),
        optim=Optim(learning_rate=2e-3, schedule=Cosine(warmup=500, final=0.05), weight_decay=0.01),
        train=Train(
            steps=3000,
            batch_size=32,
            label_smoothing=0.1,
            evaluate_every=500,
            checkpoint_every=100,
            keep_last=10,
        ),
        log=Log(every=20),
    )
