"""Write tests/golden/tokenizer: a byte-level tokenizer with a beginning and an end of text, as transformers saves one.

python tests/golden/make_tokenizer.py
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

TEXT = ["the other day they went there and then to the theatre", "a text of words: one, two, three"]
FOLDER = Path(__file__).parent / "tokenizer"


def main() -> None:
    engine = Tokenizer(BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = ["<s>", "</s>", "<pad>"]
    trainer = trainers.BpeTrainer(vocab_size=280, special_tokens=marks, initial_alphabet=alphabet, show_progress=False)
    engine.train_from_iterator(TEXT, trainer)
    engine.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    engine.enable_truncation(8)  # as the files of some models have it: no text may be cut by it
    FOLDER.mkdir(exist_ok=True)
    engine.save(str(FOLDER / "tokenizer.json"))
    named = {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>"}, "pad_token": "<pad>"}
    settings = named | {"tokenizer_class": "PreTrainedTokenizerFast"}
    (FOLDER / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")


if __name__ == "__main__":
    main()
