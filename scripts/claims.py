"""Sets docs/claims.toml, what is said about the Transformer, against the tests, identities and studies that test it.

Prints every claim with its tests, its studies and their verdicts, or why it has none, and every error. Exits with 1
where the register and the code disagree. Nothing is run.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from marks import Mark, TableError, read_marks

from txjax.lab.claims import STATES, Claim, Register, predicted, read_register
from txjax.schema import ConfigError
from txjax.store.files import read_json

IDENTITIES = "experiments/identities"


def read_identities(root: Path) -> list[Mark]:
    """Every @identity and @wrong of experiments/identities, by its claim, the first argument."""
    found = []
    for file in sorted((root / IDENTITIES).glob("*.py")):
        tree, name = ast.parse(file.read_text(encoding="utf-8")), file.relative_to(root).as_posix()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                calls = [d for d in node.decorator_list if isinstance(d, ast.Call)]
                names = [
                    str(ast.literal_eval(c.args[0])) for c in calls if ast.unparse(c.func) in ("identity", "wrong")
                ]
                found += [Mark(f"{name}::{node.name}", (claim,)) for claim in names]
    return found


def read_verdicts(root: Path) -> dict[str, list[str]]:
    """The committed verdicts on each claim: `reproduced (material): NAME, experiments/...`."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((root / "experiments").rglob("verdicts.json")):
        for entry in read_json(file):
            if entry["claim"]:
                note = entry["size"] or entry["cause"]
                word = f"{entry['word']} ({note})" if note else entry["word"]
                where = file.parent.relative_to(root).as_posix()
                found[entry["claim"]].append(f"{word}: {entry['prediction']}, {where}")
    return found


def by_claim(marks: Iterable[Mark]) -> dict[str, list[str]]:
    tests: dict[str, list[str]] = defaultdict(list)
    for mark in marks:
        for name in mark.names:
            tests[name].append(mark.test)
    return tests


def problems(register: Register, tests: dict[str, list[str]], studies: dict[str, set[str]]) -> list[str]:
    """Where the register and the code disagree."""
    known = set(register.ids)
    wrong = [
        f"{where}: the register has no {name}" for name, all_ in tests.items() if name not in known for where in all_
    ]
    wrong += [
        f"{file}: the register has no {name}" for file, names in studies.items() for name in sorted(names - known)
    ]
    for claim in register.claims:
        wrong += unmet(claim, tests.get(claim.id, []), studies)
    return wrong


def unmet(claim: Claim, tests: list[str], studies: dict[str, set[str]]) -> list[str]:
    """What a claim lacks to be in its state, or has beyond it."""
    own = sorted(file for file, names in studies.items() if claim.id in names)
    if claim.state == "tested" and not tests:
        return [f"{claim.id}: no test and no identity is marked with it: {claim.statement}"]
    if claim.state == "registered":
        return [f"{claim.id}: {file} is no study that predicts it" for file in claim.by if file not in own]
    if claim.state in ("open", "untestable") and (own or tests):
        return [f"{claim.id}: it is {claim.state} in the register, and {', '.join([*own, *tests])} tests it"]
    return []


def main(root: Path) -> int:
    try:
        register = read_register(root / "docs" / "claims.toml")
        tests = by_claim([*read_identities(root), *read_marks(root, "claim")])
    except (ConfigError, TableError) as error:
        print(error, file=sys.stderr)
        return 1
    studies, verdicts = predicted(root), read_verdicts(root)
    for claim in register.claims:
        print(f"{claim.id:5} {claim.statement}\n      {claim.kind}; {claim.source}")
        files = sorted(file for file, names in studies.items() if claim.id in names)
        note = claim.part or claim.reason
        for line in [f"{claim.state}: {note}"] * bool(note) + tests[claim.id] + files + verdicts[claim.id]:
            print(f"      -> {line}")
    for error in register.errors:
        print(f"{error.id:5} said: {error.said}\n      is: {error.right}\n      {error.source}")
        for line in tests[error.id]:
            print(f"      -> {line}")
    wrong = problems(register, dict(tests), studies)
    states = Counter(claim.state for claim in register.claims)
    shown = sum(bool(tests[error.id]) for error in register.errors)
    print(f"\n{len(register.claims)} claims: {', '.join(f'{states[s]} {s}' for s in STATES)}; "
          f"{len(register.errors)} errors, {shown} shown by a test; {len(wrong)} problems", flush=True)  # fmt: skip
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
