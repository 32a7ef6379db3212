"""The embedded corpus: the running interpreter's own documentation and library source. No download, no file of ours.

It differs from one Python version to the next, so that no pinned result may use it.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

from txjax.config.data import Split
from txjax.schema import ConfigError

EVERY = 10  # of so many documents one is for validation, so that all splits see topics and modules of all kinds
VALIDATION, TEST = 9, 4  # its place among them, and that of the one for test, where a test is asked for


def documents(split: Split, *, with_test: bool) -> Iterator[str]:
    """The language reference by topic, then the source of the standard library's top-level public modules, by name."""
    kept, belongs = 0, side(split, with_test=with_test)
    for index, text in enumerate(text for source in (_topics, _modules) for text in source() if text.strip()):
        if belongs(index):
            kept += 1
            yield text
    if not kept:
        raise ConfigError(
            "data.source='python' finds no documentation in this interpreter: name a corpus or a file of your own"
        )


def side(split: Split, *, with_test: bool) -> Callable[[int], bool]:
    """Whether a document, by its number, is in a split."""

    def belongs(index: int) -> bool:
        place = index % EVERY
        return split == ("validation" if place == VALIDATION else "test" if with_test and place == TEST else "train")

    return belongs


def _topics() -> Iterator[str]:
    """What help('assert') and the like print; some distributions leave it out."""
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError:
        return
    for name in sorted(topics):
        yield topics[name]


def _modules() -> Iterator[str]:
    """Source files of the standard library's own modules: neither packages, which hold most tests, nor built files."""
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("[a-z]*.py")):
        if file.stem in sys.stdlib_module_names:
            with tokenize.open(file) as stream:
                yield stream.read()
