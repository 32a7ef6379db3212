"""Named corpora: where each file comes from, and where it lies on this machine.

A file is looked for in $TXJAX_DATA/CORPUS/FILE, then in the cache ($TXJAX_CACHE, or ~/.cache/txjax), and is checked
against the pinned size and sha256 before its first use. Nothing here reaches for the network: see fetch.py.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txjax.schema import ConfigError, nearest


@dataclass(frozen=True)
class File:
    """One file of a corpus, pinned."""

    name: str
    size: int
    sha256: str
    url: str | None


@dataclass(frozen=True)
class Corpus:
    """text: the file that is read as text, or None where the corpus holds something else. pairs: the file of each
    split, {} for the language, or a table under "all".
    """

    name: str
    what: str
    source: str
    licence: str
    files: tuple[File, ...]
    text: str | None = None
    pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def _files(base: str | None, *pins: tuple[str, int, str]) -> tuple[File, ...]:
    """base: None where no address serves the files as they are pinned."""
    return tuple(File(name, size, sha256, base and f"{base}/{name}") for name, size, sha256 in pins)


_RAW = "https://raw.githubusercontent.com"
_NLTK = f"{_RAW}/nltk/nltk_data/5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora"
_CHINESE = f"{_RAW}/SophonPlus/ChineseNlpCorpus/a0b781d72158bde242c0626c9e354d2b328865ff/datasets"
_ALL = (
    Corpus(
        name="tinyshakespeare",
        what="40,000 lines of Shakespeare's plays, one document",
        source="karpathy/char-rnn",
        licence="public domain",
        files=_files(
            f"{_RAW}/karpathy/char-rnn/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare",
            ("input.txt", 1_115_394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
        ),
        text="input.txt",
    ),
    Corpus(
        name="stories260K",
        what="weights and tokenizer of a Llama of 260,032 parameters",
        source="karpathy/tinyllamas, by way of ytmytm/llama2.c64",
        licence="MIT",
        files=_files(
            f"{_RAW}/ytmytm/llama2.c64/12b5bec82eb980362b8a7bfe86992a552a492481",
            ("stories260K.bin", 1_056_540, "b0a507e7ad0f626624f17112325e66691f9076d622e1d3274d103d00299f2696"),
            ("tok512.bin", 6_227, "037cb335abb25d1fa9e8ecae30ed2a3a8ace9302862ebcdc05d51a6bbb10c312"),
        ),
    ),
    Corpus(
        name="gpt2_bpe",
        what="GPT-2's own vocabulary and merges, 50,257 ids",
        source="openai/gpt-2",
        licence="MIT",
        files=_files(
            "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main",
            ("encoder.json", 1_042_301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
            ("vocab.bpe", 456_318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
        ),
    ),
    Corpus(
        name="bpe_fixture",
        what="English lines, and the merges that training on them must give",
        source="stanford-cs336/assignment1-basics",
        licence="MIT",
        files=_files(
            f"{_RAW}/stanford-cs336/assignment1-basics/25a8a49f6460c83a30416d42348f2ef11d1dd185/tests/fixtures",
            ("corpus.en", 133_027, "617f603a49eeb8a20de9d922d11a5d70e1d362327b9e91718bea2cdcdf9816ff"),
            (
                "train-bpe-reference-merges.txt",
                1_271,
                "f74582742501ca5edd5be2b66adb83d7ae2b8d6363fd276771792e70de1428ed",
            ),
            (
                "train-bpe-reference-vocab.json",
                7_610,
                "e28bfb2a4fa95ec786faf462cb0d504bc15773360f4891bdf262be171ab86c18",
            ),
        ),
        text="corpus.en",
    ),
    Corpus(
        name="multi30k/bpe10k",
        what="29,000 captions, English and German, in lower case and cut by 10,000 byte-pair merges",
        source="multi30k/dataset@a3d2e0d, cut by LividWo/Revisit-MMT@dc368d0",
        licence="research and education only",
        files=_files(
            None,
            ("train.en.gz", 577_683, "f1d4c9aabe3526e0b06c404fd0d0f213fefe6991de16c49f1a5cc57cccd01066"),
            ("train.de.gz", 644_995, "6b527752c1c20c4cc19522bcb06bf7993cfa3da0e11909f7f4af77bf8e847d9f"),
            ("valid.en.gz", 22_118, "b20ce0d2fb38bd2a077a669f488425713fa7c19c4eecdf96079e63ec91b74d98"),
            ("valid.de.gz", 25_122, "9071059acf1078688936b57a20f9c3d8321fea31d41c633cf916f0e99c8b2895"),
            ("test.2016.en.gz", 21_517, "87deaeaf61100ba03aaa7582e0b9387f7b1fbe447dcaad1b0e85a7e9328c57a6"),
            ("test.2016.de.gz", 23_259, "71ef4cc8c94ffdba92afa95af20113cdf8a3c910778337009ca1582d27563543"),
        ),
        pairs={"train": ("train.{}.gz",), "validation": ("valid.{}.gz",), "test": ("test.2016.{}.gz",)},
    ),
    Corpus(
        name="multi30k/raw",
        what="29,000 captions, English and German",
        source="multi30k/dataset",
        licence="research and education only",
        files=_files(
            f"{_RAW}/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw",
            ("train.en.gz", 568_929, "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f"),
            ("train.de.gz", 637_044, "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6"),
            ("val.en.gz", 21_650, "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28"),
            ("val.de.gz", 24_681, "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a"),
            ("test_2016_flickr.en.gz", 21_077, "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"),
            ("test_2016_flickr.de.gz", 22_890, "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"),
        ),
        pairs={"train": ("train.{}.gz",), "validation": ("val.{}.gz",), "test": ("test_2016_flickr.{}.gz",)},
    ),
    Corpus(
        name="pydocs_en_zh",
        what="52,670 paragraphs of Python's documentation, English (column 0) and Chinese (column 1)",
        source="python-docs-zh-cn",
        licence="CC0",
        files=_files(
            None,
            ("pairs.tsv.gz", 5_441_932, "de592b221237a3a0ba7dd14cf461d73d37659f7c866fafe7eb669ebb443caf7e"),
        ),
        pairs={"all": ("pairs.tsv.gz",)},
    ),
    Corpus(
        name="tatoeba_en_zh",
        what="21,116 short sentences, English (column 0) and Chinese (column 1)",
        source="tatoeba.org",
        licence="CC BY",
        files=_files(
            None,
            ("cmn.txt", 1_315_138, "f81798986021a75cbbcdd7521e627d87031e1b74e5601cfb3604cf1637ac62dd"),
        ),
        pairs={"all": ("cmn.txt",)},
    ),
    Corpus(
        name="sst2",
        what="9,613 sentences on films, positive or negative",
        source="clairett/pytorch-sentiment-classification, from the Stanford Sentiment Treebank",
        licence="research use",
        files=_files(
            f"{_RAW}/clairett/pytorch-sentiment-classification/457ffd83de90a9d6d472d8ffc31bbffe40a8b236/data/SST2",
            ("train.tsv", 720_259, "ec192f833a64da08f475488a77b0d0b47db47acd0f458bd18433fc793b569920"),
            ("dev.tsv", 92_057, "eddea6b39e601dd4e7a672b53cc40fdf6019fa80522f351206c24340ca5d9359"),
            ("test.tsv", 188_749, "831169c7e2e429d6026e1bdbb542f33b636e3e596caad9602ebc953c205928b7"),
        ),
    ),
    Corpus(
        name="mr",
        what="10,662 sentences of film reviews, positive or negative",
        source="Pang and Lee 2005, by way of nltk/nltk_data",
        licence="CC BY 4.0",
        files=_files(
            _NLTK,
            ("sentence_polarity.zip", 490_256, "6e1ed4405b65c7eabf1d199a7f7c437091ac21da0ea7467b410a74062574566b"),
        ),
    ),
    Corpus(
        name="subj",
        what="10,000 sentences, subjective or objective",
        source="Pang and Lee 2004, by way of nltk/nltk_data",
        licence="CC BY 4.0",
        files=_files(
            _NLTK,
            ("subjectivity.zip", 521_628, "741f3371e1a4375051b874fd82fd55857b90975473c91c19a3101cbe17fc4d8c"),
        ),
    ),
    Corpus(
        name="trec",
        what="5,952 questions by what they ask for, 6 classes or 50",
        source="Li and Roth 2002, by way of nltk/nltk_data",
        licence="research use",
        files=_files(
            _NLTK,
            ("qc.zip", 125_456, "091fb01e50883014d150acb7d5013d787136968b3f955ae01725a65e7e80f304"),
        ),
    ),
    Corpus(
        name="zh_sentiment",
        what="Chinese reviews of meals (11,987) and hotels (7,766), positive or negative",
        source="SophonPlus/ChineseNlpCorpus",
        licence="research use",
        files=(
            *_files(
                f"{_CHINESE}/waimai_10k",
                ("waimai_10k.csv", 919_380, "b8b5c11c00b51578d35937fca56e03a126b45381f1ea4b22893237cb377a26fe"),
            ),
            *_files(
                f"{_CHINESE}/ChnSentiCorp_htl_all",
                (
                    "ChnSentiCorp_htl_all.csv",
                    2_904_858,
                    "1d414b9c65caf3a836abdb4efded621968502ad3338e1a9d885ae131c86083f0",
                ),
            ),
        ),
    ),
)
CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in _ALL}


def find(name: str) -> Corpus:
    """The corpus of that name, or ConfigError with the nearest one."""
    if name not in CORPORA:
        raise ConfigError(f"there is no corpus {name!r}{nearest(name, CORPORA)}: choose one of {', '.join(CORPORA)}")
    return CORPORA[name]


def cache() -> Path:
    """The folder that fetched corpora are kept in."""
    return Path(os.environ.get("TXJAX_CACHE") or Path.home() / ".cache" / "txjax").expanduser()


def where(corpus: Corpus, file: File) -> Path | None:
    """The first place that has the file, unchecked, or None."""
    roots = [Path(os.environ["TXJAX_DATA"]).expanduser()] if os.environ.get("TXJAX_DATA") else []
    places = (root / corpus.name / file.name for root in [*roots, cache()])
    return next((place for place in places if place.is_file()), None)


def locate(name: str, file_name: str) -> Path:
    """The path of a corpus' file, its content checked. ConfigError says how to get it where it is missing or wrong."""
    corpus = find(name)
    file = next(file for file in corpus.files if file.name == file_name)
    path = where(corpus, file)
    if path is None:
        fetch = f"run `txjax data fetch {name}` ({in_bytes(corpus.size)}), or " if file.url else ""
        raise ConfigError(
            f"corpus {name!r} is not on this machine: {fetch}set TXJAX_DATA to a folder that holds {name}/{file_name}"
        )
    if path.stat().st_size != file.size or digest(path, path.stat().st_mtime_ns) != file.sha256:
        raise ConfigError(
            f"{path} is not the file that {name!r} is pinned to: remove it and run `txjax data fetch {name}`"
        )
    return path


@functools.lru_cache(maxsize=64)
def digest(path: Path, modified: int) -> str:
    """sha256 of a file; `modified` makes the memory forget a file that has changed."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def in_bytes(size: int) -> str:
    """A size for people: 6.2 kB, 1.1 MB."""
    for unit, step in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"
