"""Model configs with the sizes that have names: the only place of them.

A family's function takes the sizes and any field of Model; `named("gpt2-medium")` gives a published size. Counts of
parameters are asserted in tests/models/test_presets.py.
"""

from txjax.models.presets.decoders import gpt1, gpt2, gpt3, llama, olmo2
from txjax.models.presets.encoder_decoders import bart, t5, t5_v1_1, transformer
from txjax.models.presets.encoders import albert, bert, electra, modernbert, roberta, vit
from txjax.models.presets.mixtures import deepseek_moe, deepseek_v3, gpt_oss, mixtral, switch
from txjax.models.presets.published import PUBLISHED, named
from txjax.models.presets.recurrent_nets import gru, lstm, min_gru, recurrent, rnn, rnnsearch, seq2seq

__all__ = [
    "PUBLISHED",
    "albert",
    "bart",
    "bert",
    "deepseek_moe",
    "deepseek_v3",
    "electra",
    "gpt1",
    "gpt2",
    "gpt3",
    "gpt_oss",
    "gru",
    "llama",
    "lstm",
    "min_gru",
    "mixtral",
    "modernbert",
    "named",
    "olmo2",
    "recurrent",
    "rnn",
    "rnnsearch",
    "roberta",
    "seq2seq",
    "switch",
    "t5",
    "t5_v1_1",
    "transformer",
    "vit",
]
