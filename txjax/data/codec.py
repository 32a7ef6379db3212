"""Text to ids and back: what every tokenizer gives, and the decoding that all of them share."""

from __future__ import annotations

import codecs
import copy
import functools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from txjax.config.data import Tokenizer
from txjax.schema import ConfigError, nearest

END_OF_TEXT = "<|endoftext|>"
FILE = "codec.json"


class Codec:
    """A tokenizer at work. encode never makes the separator or the beginning-of-text id, whatever the text holds.

    kind: the Tokenizer that restores it. spells: whether its ids spell text.
    pieces: the bytes that each id stands for; a character may be spread over several ids.
    separator: the id between documents, which also ends generation, or None.
    bos: the id that a text must begin with, or None where it needs none.
    begins: what a decoder over an encoder begins with, where the files of a tokenizer say so; see `start`.
    unwritten: ids that a text never has, though a model may find them likely.
    specials: ids that no text has, by what an objective or a source wants them for: cls and sep, before a row and
        after each part of it; mask; pad; end, of what a decoder writes; sentinel0, sentinel1 and so on.
    classes: the names of what targets number, where these are no ids.
    source: the codec of what an encoder reads, where that has a vocabulary of its own, or None.
    """

    kind: ClassVar[str]
    spells: ClassVar[bool] = True
    pieces: Sequence[bytes]
    separator: int | None = None
    bos: int | None = None
    begins: tuple[int, ...] = ()
    unwritten: tuple[int, ...] = ()
    specials: Mapping[str, int] = {}
    classes: tuple[str, ...] = ()
    source: Codec | None = None

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of its vocabulary, and of the source's where that is another."""
        return (self.vocab_size,) if self.source is None else (self.vocab_size, self.source.vocab_size)

    @property
    def reader(self) -> Codec:
        """The codec of what an encoder reads: this one, unless there is a `source`."""
        return self.source or self

    def with_source(self, source: Codec) -> Self:
        """This codec for what a decoder writes, and another for what its encoder reads."""
        both = copy.copy(self)
        both.source = source
        return both

    def encode(self, text: str) -> np.ndarray:
        """The int32 ids of a text."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What `Tokenizer.restore` needs, as JSON can hold it."""
        raise NotImplementedError

    def prompt(self, text: str) -> np.ndarray:
        """The ids that a model continues: bos where there is one, then the text, and never nothing."""
        ids = self.encode(text)
        first = self.bos if self.bos is not None or len(ids) else self.separator
        if first is not None:
            return np.concatenate([np.array([first], np.int32), ids])
        return ids if len(ids) else self._first_prompt()

    @property
    def end(self) -> int:
        """The id that closes a source and a text; ConfigError where the tokenizer has none."""
        if self.separator is None:
            raise ConfigError(f"a tokenizer of kind {self.kind} has no id that ends a text, which an encoder needs")
        return self.separator

    @property
    def start(self) -> tuple[int, ...]:
        """The ids that a decoder over an encoder reads before it writes any: `begins`; where that is empty the padding
        of a vocabulary with sentinels, as T5 and the objective named after it have it, and of others the id that ends
        a text. What comes after the first of them is learnt as a text is. Empty where there is no such id.
        """
        if self.begins:
            return self.begins
        if {"pad", "sentinel0"} <= self.specials.keys():
            return (self.specials["pad"],)
        return () if self.separator is None else (self.separator,)

    def source_ids(self, text: str) -> np.ndarray:
        """The ids that an encoder reads of a text: bos where there is one, the text, and the end."""
        before = np.array([] if self.bos is None else [self.bos], np.int32)
        return np.concatenate([before, self.encode(text), np.array([self.end], np.int32)])

    def _first_prompt(self) -> np.ndarray:
        """What stands for an empty prompt where no id begins a text: the end of a line if it has an id, or id 0."""
        return np.array([self.pieces.index(b"\n") if b"\n" in self.pieces else 0], np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids. Bytes that are no UTF-8, as a model may make them, read as U+FFFD."""
        stream = self.stream()
        return stream.push(ids) + stream.close()

    def stream(self) -> Stream:
        """Decoding of ids as they come."""
        return Stream(self)

    def piece(self, token: int, previous: int | None) -> bytes:
        """The bytes of an id where `previous` came before it."""
        return self.pieces[token]

    def byte_lengths(self) -> np.ndarray:
        """int64 [vocab_size]: bytes of text that each id stands for, 0 for those that mark a document's ends."""
        lengths = np.array([len(piece) for piece in self.pieces], np.int64)
        marks = [mark for mark in (self.separator, self.bos) if mark is not None]
        lengths[marks] = 0
        return lengths

    @functools.cached_property
    def is_text(self) -> np.ndarray:
        """bool [vocab_size]: which ids stand for text, and are neither special nor the mark of a document's ends."""
        found = np.ones(self.vocab_size, bool)
        found[[mark for mark in (self.separator, self.bos, *self.specials.values()) if mark is not None]] = False
        return found

    def extended(self, roles: Iterable[str], classes: tuple[str, ...] = ()) -> Codec:
        """This codec with a special id for each role, and the names of classes; itself where it has them."""
        missing = tuple(role for role in roles if role not in self.specials)
        return self if not missing and classes in ((), self.classes) else Extended(self, missing, classes)

    def save(self, folder: Path) -> None:
        """Write the codec to a folder, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{FILE}.part"
        part.write_text(json.dumps(_saved(self)), encoding="utf-8")
        os.replace(part, folder / FILE)


class Symbols(Codec):
    """The names that a task (txjax.data.task) gives its ids; in text they stand apart by white space."""

    kind = "symbols"
    spells = False

    def __init__(self, names: Sequence[str]) -> None:
        self._ids = {name: number for number, name in enumerate(names)}
        self.pieces = [name.encode() for name in names]

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Symbols:
        return cls(state["names"])

    def state(self) -> dict[str, Any]:
        return {"names": list(self._ids)}

    def encode(self, text: str) -> np.ndarray:
        names, known = text.split(), self._ids
        for name in names:
            if name not in known:
                raise ConfigError(f"{name!r} is not among the task's {len(known)} symbols{nearest(name, known)}")
        return np.array([known[name] for name in names], np.int32)

    def piece(self, token: int, previous: int | None) -> bytes:
        return self.pieces[token] if previous is None else b" " + self.pieces[token]

    def byte_lengths(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)


class Extended(Codec):
    """A codec, and after its vocabulary an id for each of `roles` that it lacks. Its end of text, if it has one, is the
    end of what a decoder writes; where it has none, the id for the end becomes that.
    """

    kind = "extended"

    def __init__(self, base: Codec, roles: Iterable[str], classes: tuple[str, ...] = ()) -> None:
        self.base, self.roles, self.classes = base, tuple(roles), classes
        self.specials, self.bos, self.source = dict(base.specials), base.bos, base.source
        self.begins, self.unwritten = base.begins, base.unwritten
        pieces = list(base.pieces)
        for role in self.roles:
            if role == "end" and base.separator is not None:
                self.specials[role] = base.separator
            else:
                self.specials[role] = len(pieces)
                pieces.append(f"<{role}>".encode())
        self.pieces = pieces
        self.separator = base.separator if base.separator is not None else self.specials.get("end")

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Extended:
        return cls(_restored(state["base"]), state["roles"], tuple(state["classes"]))

    def state(self) -> dict[str, Any]:
        return {"base": _saved(self.base), "roles": list(self.roles), "classes": list(self.classes)}

    def encode(self, text: str) -> np.ndarray:
        return self.base.encode(text)

    def prompt(self, text: str) -> np.ndarray:
        return self.base.prompt(text)

    def decode(self, ids: Iterable[int]) -> str:
        size = self.base.vocab_size
        runs = groupby(map(int, ids), key=lambda token: token >= size)
        return "".join(
            b"".join(self.pieces[token] for token in run).decode() if added else self.base.decode(run)
            for added, run in runs
        )

    def piece(self, token: int, previous: int | None) -> bytes:
        size = self.base.vocab_size
        if token >= size:
            return self.pieces[token]
        return self.base.piece(token, previous if previous is not None and previous < size else None)

    def byte_lengths(self) -> np.ndarray:
        added = np.zeros(self.vocab_size - self.base.vocab_size, np.int64)
        return np.concatenate([self.base.byte_lengths(), added])


class Stream:
    """Incremental decoding: a character comes out when its last byte is in, so that none is ever split."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._previous: int | None = None

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete."""
        data = bytearray()
        for token in np.asarray(list(ids), np.int64).tolist():
            if not 0 <= token < self._codec.vocab_size:
                raise ValueError(f"id {token} is not in the vocabulary of {self._codec.vocab_size} ids")
            data += self._codec.piece(token, self._previous)
            self._previous = token
        return self._decoder.decode(bytes(data))

    def close(self) -> str:
        """U+FFFD for a character that was begun and never finished, or nothing."""
        return self._decoder.decode(b"", final=True)


def load_codec(folder: Path) -> Codec:
    """The codec that `save` wrote to a folder; ConfigError where there is none or it cannot be read."""
    path = folder / FILE
    if not path.is_file():
        raise ConfigError(f"{folder} holds no tokenizer: there is no {FILE} in it")
    try:
        saved: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return _restored(saved)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ConfigError):
            raise ConfigError(f"{path} {error}") from None
        raise ConfigError(f"{path} is not a tokenizer that txjax saved, or is damaged") from None


def _saved(codec: Codec) -> dict[str, Any]:
    saved = {"kind": codec.kind, "state": codec.state()}
    return saved if codec.source is None else saved | {"source": _saved(codec.source)}


def _restored(saved: Mapping[str, Any]) -> Codec:
    kind, state = saved["kind"], saved["state"]
    members = {**Tokenizer.members(), Symbols.kind: Symbols, Extended.kind: Extended}
    if kind not in members:
        raise ConfigError(f"holds a tokenizer of kind {kind!r}, which is not known{nearest(kind, members)}")
    codec = members[kind].restore(state)
    return codec.with_source(_restored(saved["source"])) if "source" in saved else codec
