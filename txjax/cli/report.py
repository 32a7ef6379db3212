"""Draw the report of a study again from its results, or an index over a folder of studies.

  txjax report runs/studies/norm_placement-cpu
  txjax report experiments

Nothing is run and no study file is read. Of a study it writes report.md, figures/ and report.html; over a folder of
studies index.md and index.html, a line a verdict.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of a study, or of studies")


def run(options: argparse.Namespace, rest: Sequence[str]) -> int:
    from txjax.cli import refuse
    from txjax.lab import index, report

    refuse(rest)
    study = report.holds_results(options.folder)
    print((report.render if study else index.write)(options.folder))
    return 0
