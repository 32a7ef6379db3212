"""The command line: one entry point, one file a command."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

COMMANDS = {
    "train": "train a model from a config file, or resume it",
    "eval": "loss of a run over its whole validation set",
    "generate": "let a run continue a text",
    "look": "where a run looks while it reads a text, as a page",
    "translate": "each line of a file through a run with an encoder, and BLEU",
    "ablate": "run a study: tune, train every arm over seeds, judge its predictions, report",
    "sweep": "train many points of one config: a grid, a sample, a search",
    "new": "write a study to edit",
    "report": "draw a study's report again, or an index over a folder of studies",
    "inspect": "parameters, FLOPs and memory of a config, before anything runs",
    "data": "list, fetch and show corpora",
    "convert": "read other people's weights into a run folder",
    "demo": "train a small GPT on embedded text and show what it has learned",
}
# 75 and 70 are TEMPFAIL and SOFTWARE of sysexits.h, 130 is what a shell gives for Ctrl-C
DONE, STOPPED, USER_ERROR, BUG, SIGNALLED, INTERRUPTED = 0, 1, 2, 70, 75, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 for what the user can mend, 1 for a run that had to stop, 75 for
    one that saved and stopped on a signal. Such errors are one sentence on stderr; a bug is a traceback, and 70.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser("txjax", description="A laboratory for the Transformer.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, what in COMMANDS.items():
        commands.add_parser(name, help=what, description=what, allow_abbrev=False, add_help=False)
    if not arguments:
        parser.print_help()
        return USER_ERROR
    name = parser.parse_known_args(arguments[:1])[0].command
    prepare_process()
    command = importlib.import_module(f"txjax.cli.{name}")
    options = argparse.ArgumentParser(f"txjax {name}", description=command.__doc__, allow_abbrev=False)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_options(options)
    known, rest = options.parse_known_args(arguments[1:])
    try:
        refuse_misspelt(rest, vars(known))
        return command.run(known, rest)
    except Exception as error:
        return fail(name, error)
    except KeyboardInterrupt:
        print(f"txjax {name}: interrupted", file=sys.stderr)
        return INTERRUPTED


def fail(name: str, error: Exception) -> int:
    """Say what went wrong; the exit code for it."""
    from txjax.schema import ConfigError

    code = USER_ERROR if isinstance(error, ConfigError) else STOPPED if is_expected(error) else BUG
    if code == BUG:
        traceback.print_exception(error)
    else:
        print(f"txjax {name}: {error}", file=sys.stderr)
    if "jax" in sys.modules:
        from txjax.parallel.processes import leave_others

        leave_others(code)
    return code


def is_expected(error: Exception) -> bool:
    from txjax.data.fetch import FetchError
    from txjax.store.files import StoreError
    from txjax.train.loop import TrainingStopped

    return isinstance(error, (FetchError, StoreError, TrainingStopped))


def prepare_process() -> None:
    """What has to be set before jax makes its first array: the compile cache, the allocator, quiet libraries."""
    cache = Path(os.environ.get("TXJAX_CACHE", Path.home() / ".cache" / "txjax")) / "xla"
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import logging

    import absl.logging  # before anybody asks for its logger by name: that would be one that cannot tell its callers

    from txjax.cli.allocator import keep_freed_memory

    keep_freed_memory()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.ERROR)  # "no GPU found" is no news on a laptop
    absl.logging.set_verbosity(absl.logging.ERROR)


def thread_small_loops() -> None:
    """To be called before jax makes its first array, where decoding is all that a process does.

    Of a loop without a sort, a scatter or a product that a library computes, XLA makes one function for one thread on
    a CPU, however much the loop does: its SmallWhileLoopHoistingPass reads the bytes of the loop and not of its body.
    That is the loop that decodes a single text; told to leave loops alone, it takes 2.7 ms a step instead of 5.1 (13.7
    million parameters, 2 cores). Training keeps the default: some scans of recurrent nets are slower without the pass.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_backend_extra_options" not in flags:
        mine = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=0"
        os.environ["XLA_FLAGS"] = f"{flags} {mine}".strip()


def refuse_misspelt(rest: Sequence[str], options: Iterable[str]) -> None:
    """ConfigError for an option that is neither the command's nor a flag of the config."""
    from txjax.schema import ConfigError, nearest

    for word in rest:
        name = word.partition("=")[0]
        if name.startswith("--") and not name.startswith(("--config.", "--noconfig.")):
            close = nearest(name, [f"--{option}" for option in options])
            raise ConfigError(f"{name} is not an option{close or ': see --help'}")


def refuse(rest: Sequence[str]) -> None:
    """ConfigError for words that a command does not know."""
    from txjax.schema import ConfigError

    if rest:
        raise ConfigError(f"{rest[0]!r} is not an option of this command: see --help")
