"""Write tests/golden/g2p.tsv: what g2p-en's own code makes of words, by the net alone; a word and its phonemes a line.

python tests/golden/make_g2p.py FOLDER   numpy, and the unpacked wheel of g2p-en 2.1.0, whose folder holds g2p_en/

Its dictionary, homographs and numbers need nltk and inflect, which G2p.predict does not: mocks stand for those two.
Printed is the smallest distance between the two best logits of any step: how far the words are from being chance.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np

COMMON = """
a the of and to in is you that it he was for on are with as his they be at one have this from or had by hot word but
what some we can out other were all there when up use your how said each she which their time if will way about many
water people mother night through enough thought daughter laughing knife answer island listen business minute colour
eye ocean sugar
"""
RARE = """
abstruse archipelago bourgeois cacophony chrysanthemum colonel connoisseur czar daiquiri diphtheria dyspeptic
ecclesiastic choir debris gauge quay entrepreneur epitome euphonium facsimile gnome haemorrhage hierarchy idiosyncrasy
isthmus jodhpurs kaleidoscope lackadaisical lieutenant mnemonic mortgage necessary onomatopoeia paradigm pharaoh
phlegm pneumonia psychology queue quixotic rendezvous rhythm sacrilegious schism segue sovereign subpoena syzygy thyme
tsunami ubiquitous unequivocally victuals worcestershire xylophone yacht zeitgeist antidisestablishmentarianism
thyroparathyroidectomized pneumonoultramicroscopicsilicovolcanoconiosis
"""
NAMES = """
aaliyah bjork caoimhe dmitri eowyn fjord giovanni hermione ichabod joaquin krzysztof llewellyn mbeki nguyen oaxaca
pythagoras quetzal reykjavik siobhan tchaikovsky ulaanbaatar vuong wojciech xanthippe yggdrasil zbigniew
"""
MADE_UP = """
activationist blorfing chindrel dwimmerack emblarg flumphious glorbnax hobblegrain inkstrel jaxformer kwyjibo lorthanic
muggleworth nozzlewick oompaloo plinketing quandrifex rombulate snorgle thwackery umblestone vexatron wibberly xenoflux
yarbleton zqwxk tttt aeiou bcdfg qqq transformerless gradientwise blockchainify covfefe tiktokker googling vaxxer
defenestrationary supercalifragilisticexpialidocious
"""
WORDS = " ".join((COMMON, RARE, NAMES, MADE_UP)).split()


def main(folder: str) -> None:
    for name in ("nltk", "nltk.corpus", "nltk.tokenize", "inflect"):
        sys.modules[name] = MagicMock()
    sys.path.insert(0, folder)
    from g2p_en.g2p import G2p

    net = G2p()
    assert len(WORDS) == len(set(WORDS)) == 200, len(WORDS)
    lines = [f"{word}\t{' '.join(net.predict(word))}\n" for word in WORDS]
    Path(__file__).with_name("g2p.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} words; the two best logits of a step are at least {margin(net):.2g} apart")


def margin(net: SimpleNamespace) -> float:
    """The smallest distance between the best two logits of a step."""
    distances: list[float] = []

    class Watched(np.ndarray):
        def argmax(self) -> int:
            second, first = np.sort(np.asarray(self).ravel())[-2:]
            distances.append(float(first - second))
            return int(np.asarray(self).argmax())

    net.fc_b = net.fc_b.view(Watched)
    for word in WORDS:
        net.predict(word)
    return min(distances)


if __name__ == "__main__":
    main(sys.argv[1])
