"""A tokenizer as Hugging Face saves it: tokenizer.json, run by the tokenizers library, and what lies beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import decoders
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from txjax.config.data import Tokenizer
from txjax.data.codec import END_OF_TEXT, Codec, Stream
from txjax.data.tokenizers.byte_level import BYTE_OF, ByteLevelCodec
from txjax.schema import ConfigError, require

FILE, SETTINGS, MARKS = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
GENERATION, MODEL = "generation_config.json", "config.json"
START, FORCED, NEVER = "decoder_start_token_id", "forced_bos_token_id", "bad_words_ids"
IDS = (START, FORCED, "forced_eos_token_id", NEVER, "bos_token_id", "eos_token_id", "pad_token_id")


@dataclass(frozen=True)
class HuggingFace(Tokenizer, kind="huggingface"):
    """path: a folder with tokenizer.json, which a fast tokenizer saves; a run keeps a copy of its own."""

    path: str | None = None

    def build(self, documents: Iterable[str]) -> HuggingFaceCodec:
        require(self.path is not None, "data.tokenizer.huggingface.path is none: give the folder of a tokenizer.json")
        return HuggingFaceCodec(read(Path(str(self.path)).expanduser()))

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> HuggingFaceCodec:
        return HuggingFaceCodec(state["files"])


def read(folder: Path) -> dict[str, str]:
    """The files of a tokenizer by name; ConfigError where there is no tokenizer.json."""
    if not (folder / FILE).is_file():
        raise ConfigError(
            f"{folder} has no {FILE}: let transformers save a fast tokenizer there, AutoTokenizer.from_pretrained(...)"
            ".save_pretrained(...)"
        )
    names = (name for name in (FILE, SETTINGS, MARKS) if (folder / name).is_file())
    return {name: (folder / name).read_text(encoding="utf-8") for name in names} | _generation(folder)


def _generation(folder: Path) -> dict[str, str]:
    """The ids of a text's ends by which transformers generates over an encoder, in a file as it reads one, where one
    says what a decoder begins with. Old models name them in config.json alone.
    """
    for name in (GENERATION, MODEL):
        if (folder / name).is_file():
            try:
                said = json.loads((folder / name).read_text(encoding="utf-8"))
            except ValueError:
                raise ConfigError(f"{folder / name} is no JSON, or is cut off") from None
            if isinstance(said, dict) and isinstance(said.get(START), int):
                return {GENERATION: json.dumps({key: said[key] for key in IDS if key in said}, indent=2) + "\n"}
    return {}


def files_of(codec: Codec) -> dict[str, str] | None:
    """The files that transformers reads a codec from, or None where it has no such form."""
    if isinstance(codec, HuggingFaceCodec):
        return codec.files
    if not isinstance(codec, ByteLevelCodec):
        return None
    engine = Engine(BPE(codec.vocabulary, codec.merges))
    engine.pre_tokenizer = ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    engine.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    engine.add_special_tokens([END_OF_TEXT])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT}
    return {FILE: engine.to_str(), SETTINGS: json.dumps(settings)}


class HuggingFaceCodec(Codec):
    """See HuggingFace. bos is what the tokenizer itself puts before a text; the separator is the end of a text that is
    named beside it (eos_token), or what it puts after one. begins and unwritten are those of generation_config.json.
    """

    kind = "huggingface"

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        try:
            self._engine = Engine.from_str(self.files[FILE])
        except Exception as error:  # the library raises no type of its own
            raise ConfigError(f"{FILE} is not one that the tokenizers library reads: {error}") from None
        self._engine.no_truncation()
        self._engine.no_padding()
        before, after = self._frame()
        self.bos = before[0] if len(before) == 1 else None
        end = self._named("eos_token")
        self.separator = end if end is not None else after[0] if len(after) == 1 else None
        marks = {role: self._named(f"{role}_token") for role in ("cls", "sep", "mask", "pad")}
        self.specials = {role: mark for role, mark in marks.items() if mark is not None}
        self.specials = self._specials()
        self._engine.encode_special_tokens = True  # a text that holds the name of a mark is a text
        self.pieces = _pieces(self._engine, json.loads(self.files[FILE]))
        said = json.loads(self.files.get(GENERATION, "{}"))
        self.begins = tuple(said[name] for name in (START, FORCED) if isinstance(said.get(name), int))
        self.unwritten = tuple(words[0] for words in said.get(NEVER) or () if len(words) == 1)

    def _frame(self) -> tuple[list[int], list[int]]:
        """What the tokenizer puts before and after a text."""
        bare, framed = (self._engine.encode("a", add_special_tokens=marks).ids for marks in (False, True))
        start = next((i for i in range(len(framed)) if framed[i : i + len(bare)] == bare), 0)
        return framed[:start], framed[start + len(bare) :]

    def _specials(self) -> dict[str, int]:
        """Marks by what they are wanted for; T5's sentinels too."""
        named = {role: self._named(f"{role}_token") for role in ("cls", "sep", "mask", "pad")}
        count = 0
        while (sentinel := self._engine.token_to_id(f"<extra_id_{count}>")) is not None:
            named[f"sentinel{count}"] = sentinel
            count += 1
        return {role: token for role, token in named.items() if token is not None}

    def _named(self, mark: str) -> int | None:
        """The id of a mark that one of the files names."""
        for name in (SETTINGS, MARKS):
            said = json.loads(self.files.get(name, "{}")).get(mark)
            content = said["content"] if isinstance(said, dict) else said
            if content is not None:
                return self._engine.token_to_id(content)
        return None

    def encode(self, text: str) -> np.ndarray:
        return np.array(self._engine.encode(text, add_special_tokens=False).ids, np.int32)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; marks say nothing."""
        return self._engine.decode(self.checked(ids), skip_special_tokens=True)

    def stream(self) -> Stream:
        return EngineStream(self)

    def checked(self, ids: Iterable[int]) -> list[int]:
        known = np.asarray(list(ids), np.int64)
        for token in known[(known < 0) | (known >= self.vocab_size)]:
            raise ValueError(f"id {token} is not in the vocabulary of {self.vocab_size} ids")
        return known.tolist()

    def state(self) -> dict[str, Any]:
        return {"files": self.files}


class EngineStream(Stream):
    """Text comes out when what follows can no longer change it: no character is split."""

    def __init__(self, codec: HuggingFaceCodec) -> None:
        self._whole, self._ids, self._said = codec, [], ""

    def push(self, ids: Iterable[int]) -> str:
        self._ids += self._whole.checked(ids)
        return self._news(self._whole.decode(self._ids).rstrip("\N{REPLACEMENT CHARACTER}"))

    def close(self) -> str:
        return self._news(self._whole.decode(self._ids))

    def _news(self, text: str) -> str:
        news = text.removeprefix(self._said) if text.startswith(self._said) else ""
        self._said += news
        return news


_BYTE = re.compile(r"<0x([0-9A-F]{2})>")


def _pieces(engine: Engine, saved: Mapping[str, Any]) -> list[bytes]:
    """What each id stands for, as the decoder that the file names reads a token; nothing for marks."""
    vocabulary = engine.get_vocab(with_added_tokens=True)
    marks = {token["id"] for token in saved.get("added_tokens", ()) if token["special"]}
    decoder = saved.get("decoder") or {}
    steps = {step["type"]: step for step in decoder.get("decoders", [decoder]) if step}
    pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for token, number in vocabulary.items():
        if number not in marks:
            pieces[number] = _piece(token, steps)
    return pieces


def _piece(token: str, steps: Mapping[str, Any]) -> bytes:
    if "ByteLevel" in steps and all(character in BYTE_OF for character in token):
        return bytes(BYTE_OF[character] for character in token)
    if "ByteFallback" in steps and (match := _BYTE.fullmatch(token)):
        return bytes([int(match[1], 16)])
    if "WordPiece" in steps:
        prefix = steps["WordPiece"]["prefix"]
        token = token.removeprefix(prefix) if token.startswith(prefix) else f" {token}"
    return token.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").encode()
