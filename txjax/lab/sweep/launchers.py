"""Workers as processes: on this machine, or as jobs of a cluster. Each is the same command, told that it is one."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.lab.sweep.worker import Say
from txjax.schema import ConfigError, literal
from txjax.store.files import reason
from txjax.train.stop import Stop


def local(command: Sequence[str], workers: int, stop: Stop, say: Say) -> None:
    """So many processes until all have ended; asked to stop, they are asked too."""
    processes = [subprocess.Popen([*command, f"--worker={number}"]) for number in range(workers)]
    asked = False
    while any(process.poll() is None for process in processes):
        if stop.asked and not asked:
            asked = True
            for process in processes:
                process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    for number, process in enumerate(processes):
        if process.returncode < 0:
            say(f"worker {number} was ended by {signal.Signals(-process.returncode).name}: run the sweep again")


def submit(command: Sequence[str], workers: int, cluster: str | None, settings: str, folder: Path, say: Say) -> None:
    """So many jobs by submitit, waited for. cluster: slurm, local, debug; none: what there is here.

    settings: submitit's own words, such as "timeout_min=60;slurm_partition=gpu;gpus_per_node=1".
    """
    of_jobs = _settings(settings)
    try:
        import submitit
    except ImportError:
        raise ConfigError('--launcher=submitit needs submitit: pip install "txjax[sweep]"') from None
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(name="txjax-sweep", **of_jobs)
    except (RuntimeError, ValueError, TypeError, NameError, AssertionError) as error:
        raise ConfigError(f"--launcher=submitit: {reason(error)}") from None
    with executor.batch():
        jobs = [
            executor.submit(submitit.helpers.CommandFunction([*command, f"--worker={number}"], verbose=False))
            for number in range(workers)
        ]
    say(f"jobs       {', '.join(str(job.job_id) for job in jobs)}, their output in {folder}")
    for job in jobs:
        try:
            job.result()
        except Exception:  # whatever it was, submitit has written it down, and other jobs have cells of their own
            say(f"job {job.job_id} failed: {job.paths.stderr} says why")


def _settings(text: str) -> Mapping[str, Any]:
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    for name, equals, _ in parts:
        if not equals:
            raise ConfigError(f"--cluster_settings: {name.strip()!r} must be NAME=VALUE: several are parted by ;")
    return {name.strip(): literal(value) for name, _, value in parts}


def this_command(arguments: Sequence[str]) -> list[str]:
    """The process that this one is, with these arguments."""
    return [sys.executable, "-m", "txjax", *arguments]
