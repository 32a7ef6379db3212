"""Other people's weights into a run folder, and back.

  txjax convert --from=stories260K --to=runs/stories        llama2.c: a folder with the weights and tok*.bin
  txjax convert --from=stories15M.bin --to=runs/stories     or the weights, with tok*.bin beside them
  txjax convert --from=runs/stories --to=stories.bin        a run into llama2.c's layout

`txjax generate`, `txjax eval` and txjax.load read the run folder, which holds the weights as step 0.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from txjax.schema import ConfigError

if TYPE_CHECKING:
    from txjax.config import Config
    from txjax.data.tokenizers.llama2c import Llama2c


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", required=True, type=Path, metavar="DIR_OR_FILE")
    parser.add_argument("--to", dest="target", required=True, type=Path, metavar="DIR", help="or FILE.bin")
    parser.add_argument("--step", default="latest", metavar="latest|best|N", help="of a run folder")


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
    if target.suffix == ".bin":
        if not source.is_dir():
            raise ConfigError(f"--from: {source} is no run folder, which --to={target} would be written from")
        from_run(source, target, options.step)
    else:
        to_run(source, target)
    return 0


def from_run(source: Path, target: Path, step: str) -> None:
    """A checkpoint of a run as a file of llama2.c."""
    from txjax import api
    from txjax.cli.steps import which
    from txjax.interop import llama2c

    loaded = api.load(source, which(step))
    llama2c.write(target, llama2c.Weights(loaded.config.model, loaded.params))
    print(f"step {loaded.step} of {loaded.folder} is now {target}")


def to_run(source: Path, target: Path) -> None:
    """A file of llama2.c as a run. The folder gets its name when all is in it."""
    from txjax.config import Config, Data
    from txjax.data import corpora
    from txjax.interop import llama2c

    path = find_weights(source)
    weights = llama2c.read(path)
    tokenizer = find_tokenizer(path.parent, weights.model.vocab)
    config = Config(model=weights.model, data=Data(tokenizer=tokenizer))
    fingerprint = {"weights": path.name, "sha256": corpora.digest(path, path.stat().st_mtime_ns)}
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a conversion that was killed
    try:
        write_run(part, config, weights.params, fingerprint)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    print(f"{path} is now step 0 of {target}")
    print(f"sample: txjax generate --workdir={target}")


def write_run(folder: Path, config: Config, params: object, fingerprint: dict[str, str]) -> None:
    """A run with these weights as its step 0, and an optimizer that has done nothing yet."""
    import jax
    import jax.numpy as jnp

    from txjax.models import build
    from txjax.store import Run
    from txjax.train.state import initial_state

    state = initial_state(config, build(config.model), jax.tree.map(jnp.asarray, params))
    with Run.open(folder, config, fingerprint=fingerprint) as run, run.checkpoints(keep_last=1) as writer:
        config.data.tokenizer.build([]).save(run.tokenizer)
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
