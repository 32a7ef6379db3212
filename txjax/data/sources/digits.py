"""Hand-written digits as a source: small images, to be classified by their patches."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self, get_args

import numpy as np

from txjax.config.data import Data, Source, Split
from txjax.data.buckets import Buckets
from txjax.data.codec import Codec, Symbols
from txjax.data.dataset import Dataset
from txjax.schema import ConfigError, require

if TYPE_CHECKING:
    from txjax.config.root import Config

logger = logging.getLogger(__name__)

SIDE, LARGEST, CLASSES = 8, 16, 10  # pixels, their largest value, digits


@dataclass(frozen=True)
class Digits(Source, kind="digits"):
    """1,797 digits of 8 x 8 pixels that come with scikit-learn (Alpaydin and Kaynak 1998, UCI), cut into patches.

    patch: pixels a side of a patch; an image is (8 / patch)^2 vectors of patch^2 numbers in [-1, 1], row after row.

    The images are put into one fixed order, whose last shares are `data.validation` and `data.test`.
    """

    patch: int = 2

    unused: ClassVar = ("tokenizer", "chunking", "objective", "context", "held_out")

    def check(self) -> None:
        require(self.patch in (1, 2, 4, 8), f"patch must divide {SIDE}: one of 1, 2, 4, 8, got {self.patch}")

    @property
    def context(self) -> int:
        return (SIDE // self.patch) ** 2

    def codec(self, data: Data) -> Symbols:
        return Symbols(tuple(str(digit) for digit in range(CLASSES)))

    def load(self, config: Config, saved: Codec | None) -> Dataset:
        self._check(config)
        images, labels = read()
        splits: list[ImageExamples | None] = []
        for split, rows in zip(get_args(Split), shares(len(labels), config.data), strict=True):
            found = ImageExamples(images[rows], labels[rows], self.patch) if len(rows) else None
            logger.info("%s: %s", split, found and found.report)
            splits.append(found)
        return Dataset(self.codec(config.data), *splits)  # type: ignore[arg-type]

    def _check(self, config: Config) -> None:
        embedding, head = config.model.embedding, config.model.head
        require(
            getattr(embedding, "size", None) == self.patch**2,
            f"data.source=digits gives vectors of {self.patch**2} numbers, and the model has embedding="
            f"{embedding.kind}: set model.embedding=patches with side={self.patch} and channels=1",
        )
        require(
            getattr(head, "outputs", None) == CLASSES,
            f"data.source=digits has {CLASSES} classes, and the model has head={head.kind} with outputs="
            f"{getattr(head, 'outputs', None)}: set model.head=classes with outputs={CLASSES}",
        )


def read() -> tuple[np.ndarray, np.ndarray]:
    """Images, float32 [1797, 8, 8] in [-1, 1], and their digits, int32."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigError("data.source=digits needs scikit-learn: pip install 'txjax[images]'") from None
    pixels, labels = load_digits(return_X_y=True)  # a row an image
    images = np.asarray(pixels).reshape(-1, SIDE, SIDE) * (2 / LARGEST) - 1
    return images.astype(np.float32), np.asarray(labels, np.int32)


def patches_of(images: np.ndarray, patch: int) -> np.ndarray:
    """[M, S, S] as [M, (S / patch)^2, patch^2]: patches row after row, and pixels row after row in each."""
    count, side, _ = images.shape
    grid = images.reshape(count, side // patch, patch, side // patch, patch)
    return grid.transpose(0, 1, 3, 2, 4).reshape(count, -1, patch**2)


def shares(count: int, data: Data) -> tuple[np.ndarray, ...]:
    """Row numbers of train, validation and test."""
    order = np.argsort(np.random.Philox(np.random.SeedSequence(0)).random_raw(count), kind="stable")
    return tuple(np.split(order, [int(count * (1 - data.validation - data.test)), int(count * (1 - data.test))]))


class ImageExamples:
    """A split of images with their classes: Examples, see txjax.data.dataset. targets and weights are [B, 1]."""

    endless = renewed = False
    fields = ("tokens", "targets", "weights")
    buckets: Buckets | None = None

    def __init__(self, images: np.ndarray, labels: np.ndarray, patch: int) -> None:
        self.images, self.labels = np.ascontiguousarray(images), np.ascontiguousarray(labels)
        self.patch = patch

    @property
    def context(self) -> int:
        return (self.images.shape[1] // self.patch) ** 2

    @property
    def report(self) -> str:
        return f"{len(self):,} images of {self.context} patches, {len(np.unique(self.labels))} classes"

    def __len__(self) -> int:
        return len(self.labels)

    def gather(self, indices: np.ndarray) -> dict[str, np.ndarray]:
        there = np.minimum(indices, len(self) - 1)
        weights = indices < len(self)
        return {
            "tokens": patches_of(self.images[there], self.patch),
            "targets": self.labels[there, None],
            "weights": weights.astype(np.float32)[:, None],
        }

    def for_seed(self, seed: int) -> Self:
        return self

    def contents(self) -> Iterator[bytes | memoryview]:
        yield from (array.data for array in (self.images, self.labels))
        yield str(self.patch).encode()

    def target_bytes(self, codec: Codec) -> int:
        return 0

    def target_entropy(self) -> float:
        shares = np.bincount(self.labels) / len(self)
        return float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())

    def show(self, index: int, codec: Codec) -> list[str]:
        """The image as shades, a line for each row of pixels, and its class."""
        shades = np.array(list(" .:-=+*#%@"))[((self.images[index] + 1) / 2 * 9).round().astype(int)]
        return ["".join(row) for row in shades] + [f"is {codec.decode([self.labels[index]])}"]
