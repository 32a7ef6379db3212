"""Sets docs/bugs.toml, public bugs of codebases that do this job, against the tests that guard against them.

Prints every entry with its tests, or why it has none. Exits with 1 where an entry has neither, or a test's
@pytest.mark.bug(...) names what no entry has. Tests are read, not run.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from marks import Mark, TableError, read_marks

# What an entry must say besides, by its state.
STATES = {
    "guarded": None,  # a test fails when the bug comes back
    "open": "part",  # waits for a part of the project that is not built yet
    "measured": "by",  # a matter of speed: the file of the benchmark that shows it
    "impossible": "reason",  # nothing here that it could happen to
}
REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")


@dataclass(frozen=True)
class Bug:
    """One entry. title: what right looks like. sources: public reports, each owner/repo#n."""

    id: str
    title: str
    sources: tuple[str, ...]
    state: str
    part: str | None = None
    by: str | None = None
    reason: str | None = None

    @property
    def note(self) -> str | None:
        """What the state asks for."""
        key = STATES[self.state]
        return getattr(self, key) if key else None


def read_table(file: Path) -> list[Bug]:
    """The entries of docs/bugs.toml; TableError names the entry and the field that is wrong."""
    bugs = []
    for fields in tomllib.loads(file.read_text(encoding="utf-8"))["bug"]:
        where = fields.get("id", "an entry without an id")
        state = fields.get("state")
        if state not in STATES:
            raise TableError(f"{where}: state must be one of {', '.join(STATES)}, got {state!r}")
        wanted = {"id", "title", "sources", "state", STATES[state]} - {None}
        if wrong := wanted ^ fields.keys():
            raise TableError(f"{where}: a bug that is {state} has {', '.join(sorted(wanted))}; see {sorted(wrong)}")
        if strange := [s for s in fields["sources"] if not REPORT.fullmatch(s)] or not fields["sources"]:
            raise TableError(f"{where}: sources must be a list of owner/repo#n, got {strange}")
        bugs.append(Bug(**{**fields, "sources": tuple(fields["sources"])}))
    if twice := [name for name, n in Counter(bug.id for bug in bugs).items() if n > 1]:
        raise TableError(f"id {twice[0]} is taken twice")
    return bugs


def match(bugs: Iterable[Bug], marks: Iterable[Mark]) -> tuple[dict[str, list[str]], list[str]]:
    """The tests of each entry, and what is wrong with the marks.

    A mark stands for the entries that one of its names belongs to alone. Some reports belong to several entries:
    one of those says nothing by itself, and the mark then names the entry's id too.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for bug in bugs:
        for name in (bug.id, *bug.sources):
            owners[name].add(bug.id)
    tests: dict[str, list[str]] = defaultdict(list)
    wrong = []
    for mark in marks:
        wrong += [f"{mark.test}: no entry of docs/bugs.toml has {name}" for name in mark.names if name not in owners]
        meant = {bug for name in mark.names if len(owners.get(name, ())) == 1 for bug in owners[name]}
        shared = sorted({bug for name in mark.names for bug in owners.get(name, ())})
        if shared and not meant:
            wrong.append(
                f"{mark.test}: {', '.join(mark.names)} is in {', '.join(shared)}: add the id of the one that is meant"
            )
        for bug in sorted(meant):
            tests[bug].append(mark.test)
    return tests, wrong


def unmet(bug: Bug, tests: list[str], root: Path) -> str | None:
    """What an entry lacks, or None."""
    if bug.state == "guarded" and not tests:
        return f"{bug.id}: no test is marked with it: {bug.title}"
    if bug.by is not None and not (root / bug.by).is_file():
        return f"{bug.id}: there is no {bug.by}"
    return None


def main(root: Path) -> int:
    try:
        bugs = read_table(root / "docs" / "bugs.toml")
        tests, wrong = match(bugs, read_marks(root, "bug"))
    except TableError as error:
        print(error, file=sys.stderr)
        return 1
    for bug in bugs:
        print(f"{bug.id}  {bug.title}")
        print(f"      {', '.join(bug.sources)}")
        for line in [f"{bug.state}: {bug.note}"] * bool(bug.note) + tests[bug.id]:
            print(f"      -> {line}")
    states = Counter(bug.state for bug in bugs)
    wrong += [problem for bug in bugs if (problem := unmet(bug, tests[bug.id], root))]
    print(f"\n{len(bugs)} entries: {', '.join(f'{states[s]} {s}' for s in STATES)}; {len(wrong)} problems", flush=True)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
