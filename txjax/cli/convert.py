"""Other people's weights into a run folder, and back.

  txjax convert --from=stories260K --to=runs/stories        llama2.c: a folder with the weights and tok*.bin
  txjax convert --from=stories15M.bin --to=runs/stories     or the weights, with tok*.bin beside them
  txjax convert --from=runs/stories --to=stories.bin        a run into llama2.c's layout
  txjax convert --from=SmolLM --to=runs/smol                Hugging Face: a folder with config.json, safetensors and
                                                            tokenizer.json
  txjax convert --from=checkpoint20.npz --to=runs/g2p       g2p-en: the weights, its vocabularies are known
  txjax convert --from=runs/smol --to=SmolLM --format=huggingface      and back; llama, say, for one family's layout

`txjax generate`, `txjax translate`, `txjax eval` and txjax.load read the run folder, which holds the weights as step 0.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.cli import steps
from txjax.schema import ConfigError, listed

if TYPE_CHECKING:
    from txjax.api import Loaded
    from txjax.config import Config
    from txjax.data.codec import Codec
    from txjax.data.tokenizers.llama2c import Llama2c
    from txjax.interop.huggingface import Family

LONGEST = 1024  # tokens in a sequence of the run's data: a model's own context may be longer than any text


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", required=True, type=Path, metavar="DIR_OR_FILE")
    parser.add_argument("--to", dest="target", required=True, type=Path, metavar="DIR", help="or FILE.bin")
    steps.add_checkpoint(parser)
    parser.add_argument("--format", metavar="NAME", help="to write: llama2c, huggingface, or a family such as llama")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import refuse

    refuse(rest)
    source, target = options.source, options.target
    if not source.exists():
        raise ConfigError(f"--from: there is no {source}")
    if target.is_dir() and any(target.iterdir()):
        raise ConfigError(f"--to: {target} is not empty: give a new folder")
    if target.is_file():
        raise ConfigError(f"--to: {target} is there already: give a new name")
    form = options.format or ("llama2c" if target.suffix == ".bin" else None)
    if form is not None and not source.is_dir():
        raise ConfigError(f"--from: {source} is no run folder, which --to={target} would be written from")
    if form is not None:
        from_run(source, target, form, options)
    elif (source / "run.json").is_file():
        raise ConfigError(f"--from: {source} is a run: say what to write, --format=llama2c or --format=huggingface")
    elif (options.step, options.average) != ("latest", 1):
        raise ConfigError(f"--step and --average choose among a run's checkpoints, {source} is none: leave them out")
    elif (source / "config.json").is_file():
        from_huggingface(source, target)
    elif source.suffix == ".npz":
        from_g2p(source, target)
    else:
        from_llama2c(source, target)
    return 0


def from_run(source: Path, target: Path, form: str, options: argparse.Namespace) -> None:
    """A checkpoint of a run, or the mean of several, as a file of llama2.c, or as a folder as transformers has it."""
    from txjax.interop import huggingface, llama2c

    if form == "llama2c":
        loaded = steps.load(source, options)
        llama2c.write(target, llama2c.Weights(loaded.config.model, loaded.params))
        print(f"{steps.said(loaded, options)} is now {target}")
        return
    family = None if form == "huggingface" else huggingface.family_of(form)
    loaded = steps.load(source, options)
    with whole(target) as part:
        part.mkdir()
        written = to_huggingface(part, loaded, family)
    print(f"{steps.said(loaded, options)} is now {target}, a model of type {written}")


def to_huggingface(folder: Path, loaded: Loaded, family: Family | None) -> str:
    """Weights and tokenizer, with the ids of a text's ends; the model_type that was written."""
    from txjax.data.tokenizers.huggingface import files_of
    from txjax.interop import huggingface

    codec = loaded.codec
    marks = {"bos_token_id": codec.bos, "eos_token_id": codec.separator}
    if "pad" in codec.specials:
        marks["pad_token_id"] = codec.specials["pad"]
    if loaded.config.model.encoder is not None and codec.start:
        marks["decoder_start_token_id"] = codec.start[0]
    written = huggingface.write(folder, loaded.config.model, loaded.params, family=family, more=marks)
    tokenizer = files_of(codec)
    if tokenizer is None:
        print(f"the tokenizer, of kind {codec.kind}, is left out: transformers has no form for it")
    for name, text in (tokenizer or {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    return written.model_type


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A folder, yet to be made, that takes the name of the target when all is in it."""
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed
    try:
        yield part
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def from_huggingface(source: Path, target: Path) -> None:
    """A folder as transformers has it as a run."""
    from txjax.config import Config, Data
    from txjax.data import corpora
    from txjax.data.tokenizers.huggingface import HuggingFace, HuggingFaceCodec, read
    from txjax.interop import huggingface

    weights = huggingface.read(source)
    config = Config(model=weights.model)
    if weights.model.embedding.reads == "ids":
        size = HuggingFaceCodec(read(source)).vocab_size
        context = min(weights.model.context, LONGEST)
        data = Data(tokenizer=HuggingFace(str(source.absolute())), context=context)
        config = replace(config, data=data).with_vocab(size)
    files = sorted([*source.glob("*.safetensors"), source / "config.json"])
    fingerprint = {"weights": source.name} | {f.name: corpora.digest(f, f.stat().st_mtime_ns) for f in files}
    with whole(target) as part:
        write_run(part, config, config.data.tokenizer.build([]), weights.params, fingerprint)
    print(f"{source} is now step 0 of {target}")
    if weights.passed:
        names, head = listed(weights.passed), weights.model.head.kind
        print(f"left out: {names}, of other heads than {head}, which this model has")
    if weights.model.generates and weights.model.encoder is None:
        print(f"sample: txjax generate --workdir={target}")


def from_llama2c(source: Path, target: Path) -> None:
    """A file of llama2.c as a run."""
    from txjax.config import Config, Data
    from txjax.data import corpora
    from txjax.interop import llama2c

    path = find_weights(source)
    weights = llama2c.read(path)
    tokenizer = find_tokenizer(path.parent, weights.model.vocab)
    config = Config(model=weights.model, data=Data(tokenizer=tokenizer))
    fingerprint = {"weights": path.name, "sha256": corpora.digest(path, path.stat().st_mtime_ns)}
    with whole(target) as part:
        write_run(part, config, tokenizer.build([]), weights.params, fingerprint)
    print(f"{path} is now step 0 of {target}")
    print(f"sample: txjax generate --workdir={target}")


def from_g2p(source: Path, target: Path) -> None:
    """A file of g2p-en as a run."""
    from txjax.config import Config, Data
    from txjax.data import corpora
    from txjax.data.sources.pairs import Pairs
    from txjax.interop import g2p

    weights = g2p.read(source)
    data = Data(source=Pairs(source_tokenizer=g2p.LETTERS), tokenizer=g2p.PHONEMES)
    codec = g2p.PHONEMES.build([]).with_source(g2p.LETTERS.build([]))
    fingerprint = {"weights": source.name, "sha256": corpora.digest(source, source.stat().st_mtime_ns)}
    with whole(target) as part:
        write_run(part, Config(model=weights.model, data=data), codec, weights.params, fingerprint)
    print(f"{source} is now step 0 of {target}")
    greedy = f"--beam=1 --stop=full --longest={g2p.LONGEST + 1}"  # the end is one more
    print(f"pronounce: txjax translate --workdir={target} --from=WORDS.txt {greedy}")


def write_run(folder: Path, config: Config, codec: Codec, params: object, fingerprint: dict[str, str]) -> None:
    """A run with these weights as its step 0, and an optimizer that has done nothing yet."""
    import jax
    import jax.numpy as jnp

    from txjax.models import build
    from txjax.store import Run
    from txjax.train.state import initial_state

    state = initial_state(config, build(config.model), jax.tree.map(jnp.asarray, params))
    with Run.open(folder, config, fingerprint=fingerprint) as run, run.checkpoints(keep_last=1) as writer:
        codec.save(run.tokenizer)
        writer.save(
            0,
            params=state.params,
            opt_state=state.opt_state,
            progress=state.progress,
            data={},
            meta={"config": config.digest()},
        )


def find_weights(source: Path) -> Path:
    """The .bin file that is meant, or the one of a folder that is no tokenizer."""
    if source.is_file():
        return source
    found = sorted(path for path in source.glob("*.bin") if not path.name.startswith("tok"))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ConfigError(f"--from: {source} must hold one .bin file of weights besides tok*.bin, it has {names}")
    return found[0]


def find_tokenizer(folder: Path, size: int) -> Llama2c:
    """The tokenizer file in a folder that has as many ids as the model."""
    from txjax.data.tokenizers.llama2c import Llama2c, read

    sizes = {path: len(read(path)[0]) for path in sorted(folder.glob("tok*.bin"))}
    for path, ids in sizes.items():
        if ids == size:
            return Llama2c(str(path.absolute()))
    names = ", ".join(f"{path.name} with {ids}" for path, ids in sizes.items()) or "no tok*.bin at all"
    raise ConfigError(f"--from: the model has {size} ids, and beside it there is {names}: put its tokenizer there")
