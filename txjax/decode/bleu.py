"""BLEU by sacrebleu, with its signature: a score without one cannot be compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from txjax.schema import ConfigError, require

Tokenize = Literal["none", "13a", "char", "zh"]
CONTINUED = re.compile("@@( |$)")  # a piece that the next one goes on with, as Sennrich et al. 2016's code writes it


class Bleu(NamedTuple):
    """score: in percent. text: as sacrebleu writes it, with the precisions and the brevity penalty. signature: of what
    was computed.
    """

    score: float
    text: str
    signature: str


def bleu_against(references: Sequence[str], lines: int, tokenize: Tokenize) -> Callable[[Sequence[str]], Bleu]:
    """Corpus BLEU (Papineni et al. 2002) of so many lines of text, case kept, one reference each; byte-pair pieces of
    the references are joined.

    tokenize: none: both are cut into words already, by white space; else how sacrebleu cuts them.
    ConfigError, before there is any text to score, where sacrebleu is not installed, or the numbers of lines differ.
    """
    require(
        len(references) == lines,
        f"--reference has {len(references)} lines for {lines} of text: it needs a line for each",
    )
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError:
        raise ConfigError("BLEU needs sacrebleu, which is not installed: pip install 'txjax[score]'") from None
    metric = BLEU(tokenize=tokenize, force=True)  # force: no warning that the text looks tokenised: it is meant to be
    joined = [CONTINUED.sub("", line) for line in references]

    def score(texts: Sequence[str]) -> Bleu:
        found = metric.corpus_score(list(texts), [joined])
        return Bleu(found.score, str(found), str(metric.get_signature()))

    return score
